// Decodes a line that stays up: end points cut it into segments, and words are shown as they come.
//
//   c++ -std=c++17 stream.cc $(pkg-config --cflags --libs koshi) -o stream
//   ./stream [--real-time] trans.mdl HCLG.fst words.txt ark:loglikes.ark 1,2,3,4,5
//
// The utterances of the archive are played one behind the other as one stream, a tenth of a second at a time, with
// `--real-time` no faster than they were spoken. The last argument lists the phones that are silence. Lines that
// begin with dots may still change; the others are segments that an end point has closed.

#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <sstream>
#include <string>
#include <thread>
#include <vector>

#include <koshi.hpp>

namespace {

constexpr std::size_t packet = 10; // frames
constexpr double frame_shift = 0.01;

struct options {
    bool real_time = false;
    std::string model, graph, words, scores;
    std::vector<std::int32_t> silence;
};

options read(int argc, char **argv)
{
    std::vector<std::string> names(argv + 1, argv + argc);
    options options;
    if (!names.empty() && names.front() == "--real-time") {
        options.real_time = true;
        names.erase(names.begin());
    }
    if (names.size() != 5) {
        std::cerr << "usage: stream [--real-time] trans.mdl HCLG.fst words.txt ark:loglikes.ark silence-phones\n";
        std::exit(2);
    }
    options.model = names[0], options.graph = names[1], options.words = names[2], options.scores = names[3];
    std::istringstream phones(names[4]);
    for (std::string phone; std::getline(phones, phone, ',');)
        options.silence.push_back(std::stoi(phone));
    return options;
}

koshi::decoder make_decoder(const options &options)
{
    const koshi::transitions model = koshi::transitions::read(options.model);
    const koshi::graph graph = koshi::graph::read(options.graph, &model);
    koshi_decoder_config config = koshi::decoder::defaults();
    config.beam = 13;
    config.lattice_beam = 6;
    config.max_active = 7000;
    config.acoustic_scale = 0.083333f;
    config.frame_shift = frame_shift;
    koshi::decoder decoder(graph, config);

    koshi_endpoint_config endpoints = koshi::decoder::endpoint_defaults();
    endpoints.action = KOSHI_ENDPOINT_SEGMENT;
    decoder.set_endpoint_rules(endpoints, options.silence);
    return decoder;
}

class transcript {
public:
    explicit transcript(const koshi::symbols &words) : words_(words) {}

    // Prints what the last rows have brought.
    void update(const koshi::channel &channel)
    {
        for (; closed_ < channel.num_segments(); ++closed_) {
            const koshi::closed_segment segment = channel.segment(std::uint64_t(closed_));
            print(segment.path, double(segment.end.first_frame), segment.end.seconds, segment.end.rule);
            shown_.clear();
        }
        const std::string now = channel.partial().path.text(&words_);
        if (now != shown_)
            std::cout << "... " << now << std::endl;
        shown_ = now;
    }

    // Prints the segment that the end of the stream leaves open.
    void end(const koshi::channel &channel)
    {
        const double first = closed_ > 0 ? double(channel.endpoint().frames) : 0;
        print(channel.best_path(true), first, frame_shift * double(channel.num_frames()), 0);
    }

private:
    void print(const koshi::path &path, double first_frame, double end, unsigned rule) const
    {
        char times[64];
        std::snprintf(times, sizeof times, "%.2f to %.2f s, ", frame_shift * first_frame, end);
        std::cout << times << (rule > 0 ? "rule " + std::to_string(rule) : "end of stream") << ": "
                  << path.text(&words_) << std::endl;
    }

    const koshi::symbols &words_;
    std::int64_t closed_ = 0; // segments that are printed
    std::string shown_;
};

void play(const options &options)
{
    const koshi::symbols words = koshi::symbols::read(options.words);
    koshi::channel channel(make_decoder(options));
    channel.begin();
    transcript transcript(words);
    koshi::matrix_reader reader(options.scores);
    auto due = std::chrono::steady_clock::now();
    while (const auto utterance = reader.next()) {
        const koshi::rows all = utterance->value.rows();
        for (std::size_t first = 0; first < all.frames; first += packet) {
            const koshi::rows rows = all.slice(first, packet);
            due += std::chrono::microseconds(std::llround(1e6 * frame_shift * double(rows.frames)));
            if (options.real_time)
                std::this_thread::sleep_until(due);
            channel.push(rows);
            transcript.update(channel);
        }
    }
    channel.finish();
    transcript.end(channel);
}

} // namespace

int main(int argc, char **argv)
{
    try {
        play(read(argc, argv));
    } catch (const std::exception &error) {
        std::cerr << error.what() << '\n';
        return 1;
    }
    return 0;
}

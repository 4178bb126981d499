// The C++ header: owners, errors both ways, and the same results as the C interface underneath.

#include "koshi.hpp"

#include <algorithm>
#include <cmath>
#include <thread>
#include <type_traits>

#include "check.h"

namespace {

using koshi::bytes;

const char *const prompts = "examples/data/prompts";

static_assert(!std::is_copy_constructible_v<koshi::channel> && !std::is_copy_assignable_v<koshi::channel>);
static_assert(std::is_nothrow_move_constructible_v<koshi::graph> && std::is_nothrow_move_assignable_v<koshi::graph>);
static_assert(sizeof(koshi::graph) == sizeof(void *));

std::string file(const char *name)
{
    return std::string(prompts) + "/" + name;
}

// The error that a body throws.
template <class Body>
koshi::error caught(Body body)
{
    try {
        body();
    } catch (const koshi::error &error) {
        return error;
    }
    fprintf(stderr, "nothing was thrown\n");
    exit(1);
}

koshi_decoder_config options()
{
    koshi_decoder_config options = koshi::decoder::defaults();
    CHECK(options.struct_size == sizeof options && options.beam == 15);
    options.beam = 13;
    options.lattice_beam = 6;
    options.max_active = 7000;
    options.acoustic_scale = 0.083333f;
    return options;
}

void errors()
{
    const koshi::error thrown = caught([] { koshi::graph::read("/nonexistent"); });
    auto failed = koshi::graph::try_read("/nonexistent");
    CHECK(!failed && !failed.ok() && failed.status() == KOSHI_E_IO);
    CHECK(thrown.status() == KOSHI_E_IO && strcmp(thrown.what(), failed.failure().what()) == 0);
    CHECK(strstr(thrown.what(), "/nonexistent") != nullptr);
    CHECK(caught([&] { (void)failed.value(); }).status() == KOSHI_E_IO);
    CHECK(caught([&] { (void)koshi::graph(std::move(failed).value()); }).status() == KOSHI_E_IO);

    // The causes are those of the C interface.
    koshi_error *err = nullptr;
    koshi_graph *graph = nullptr;
    CHECK(koshi_graph_read("/nonexistent", nullptr, &graph, &err) == KOSHI_E_IO);
    std::size_t causes = 0;
    for (const koshi_error *cause = koshi_error_cause(err); cause != nullptr; cause = koshi_error_cause(cause)) {
        CHECK(causes < thrown.causes().size() && thrown.causes()[causes] == koshi_error_message(cause));
        ++causes;
    }
    CHECK(causes == thrown.causes().size());
    koshi_error_free(err);

    // Nothing is held: a wrong handle like any other.
    const koshi::graph nothing;
    CHECK(nothing.try_info().status() == KOSHI_E_HANDLE);
    CHECK(caught([&] { koshi::decoder decoder(nothing); }).status() == KOSHI_E_HANDLE);
    CHECK(koshi::path().olabels().empty() && koshi::paths().size() == 0 && koshi::matrix().rows().frames == 0);
    CHECK(koshi::buffer().to_string().empty());
}

void owners()
{
    koshi::symbols names = koshi::symbols::from_memory(bytes("<eps> 0\none 1\ntwo 2\n"));
    CHECK(names.find("two") == 2 && !names.find("three") && names.name(1) == "one" && !names.name(3));
    koshi::symbols other = names.share();
    CHECK(other.get() == names.get());
    koshi::symbols moved = std::move(names);
    CHECK(!names && moved && names.size() == -1 && moved.size() == 3);
    moved.reset();
    CHECK(!moved && other.size() == 3);
    koshi_symbols *raw = other.release();
    CHECK(koshi_symbols_size(raw) == 3);
    other.reset(raw);
    koshi::symbols &same = other;
    other = std::move(same); // to itself
    CHECK(koshi_symbols_size(raw) == -1 ? !other : other.get() == raw);
    other = koshi::symbols::from_memory(bytes("<eps> 0\n"));
    CHECK(koshi_symbols_size(raw) == -1 && other.size() == 1);
}

// Columns that are read from a matrix, until told to fail.
class slow_scores : public koshi::scores {
public:
    slow_scores(const koshi::rows &all, std::int64_t bad, bool *gone) : all_(all), bad_(bad), gone_(gone) {}
    ~slow_scores() override { *gone_ = true; }
    std::int32_t num_columns() override { return std::int32_t(all_.columns); }
    std::int64_t num_frames_ready() override { return std::int64_t(all_.frames); }
    bool is_last_frame(std::int64_t frame) override { return frame + 1 == num_frames_ready(); }
    void fill(std::int64_t frame, float *row, std::size_t columns) override
    {
        if (frame == bad_)
            throw std::out_of_range("no such frame");
        std::copy_n(all_.data + std::size_t(frame) * all_.stride, columns, row);
    }

private:
    koshi::rows all_;
    std::int64_t bad_;
    bool *gone_;
};

void pulled(koshi::channel &channel, const koshi::rows &rows, const koshi::path &wanted)
{
    bool gone = false;
    {
        koshi::decodable good(std::make_unique<slow_scores>(rows, -1, &gone));
        channel.begin();
        CHECK(channel.advance(good, 10) == 10 && channel.advance(good) == rows.frames - 10);
        CHECK(channel.best_path(true).olabels().to_vector() == wanted.olabels().to_vector());
        CHECK(!gone);
    }
    CHECK(gone);
    koshi::decodable bad(std::make_unique<slow_scores>(rows, 5, &gone));
    koshi::decodable moved = std::move(bad);
    channel.begin();
    bool thrown = false;
    try {
        channel.advance(moved);
    } catch (const std::out_of_range &error) {
        thrown = strcmp(error.what(), "no such frame") == 0;
    }
    CHECK(thrown && channel.num_frames() == 5);
    auto failed = channel.try_advance(moved);
    CHECK(failed.status() == KOSHI_E_CALLBACK && moved.thrown());
    CHECK(channel.try_advance(bad).status() == KOSHI_E_HANDLE);
}

void lattices(koshi::channel &channel, const koshi::transitions &model, const koshi::symbols &names)
{
    const float scale = 0.083333f;
    const koshi::path best = channel.best_path(true);
    const koshi::lattice raw = channel.lattice(true);
    CHECK(!raw.info().is_compact && raw.arc_offsets().size() == raw.info().num_states + 1);
    CHECK(raw.arcs().size() == raw.info().num_arcs && raw.times().size() == raw.info().num_states);
    CHECK(raw.best_path(scale).ilabels().to_vector() == best.ilabels().to_vector());

    const koshi::determinized_lattice made = raw.determinize(&model, koshi::lattice::determinize_defaults());
    CHECK(made.complete && made.effective_beam > 0 && made.lattice.info().is_compact);
    std::size_t ids = 0;
    for (std::size_t arc = 0; arc < made.lattice.arcs().size(); ++arc)
        ids += made.lattice.string(arc).size();
    CHECK(ids > 0);
    CHECK(made.lattice.to_raw().info().num_arcs >= ids / 2);

    const koshi::paths list = made.lattice.nbest(5, scale);
    CHECK(list.size() > 1 && list.size() <= 5);
    CHECK(list[0].olabels().to_vector() == best.olabels().to_vector() && !list[list.size()]);
    CHECK(list.posterior(0) >= list.posterior(1) && list.to_json(&names).find("posterior") != std::string::npos);

    const koshi::oracle_path oracle = made.lattice.oracle(best.olabels());
    CHECK(oracle.errors == 0 && oracle.path.olabels().to_vector() == best.olabels().to_vector());

    koshi_words_config config = koshi::words::defaults();
    config.acoustic_scale = scale;
    const koshi::words words = made.lattice.words(config);
    CHECK(!words.list().empty() && words.expected_errors() >= 0);
    CHECK(words.to_ctm("key", koshi::words::ctm_defaults(), &names).rfind("key 1 ", 0) == 0);
    CHECK(made.lattice.words_of(best.olabels(), config).list().size() >= best.olabels().size());
    CHECK(made.lattice.best_words(scale, false).list().size() == best.olabels().size());

    const koshi::buffer text = made.lattice.to_memory(KOSHI_LATTICE_BINARY);
    const koshi::lattice back = koshi::lattice::from_memory(text.bytes());
    CHECK(back.to_memory(KOSHI_LATTICE_BINARY).to_string() == text.to_string());
    CHECK(made.lattice.to_dot(&names).rfind("digraph", 0) == 0 && made.lattice.to_json().front() == '{');
    CHECK(raw.prune(1, scale).info().num_arcs < raw.info().num_arcs);
    CHECK(raw.scale(1, 0).info().num_arcs == raw.info().num_arcs);
    CHECK(made.lattice.unite(made.lattice).info().num_states > made.lattice.info().num_states);
    CHECK(made.lattice.push(scale).minimize(scale, 1e-3f).info().num_states <= made.lattice.info().num_states);
    CHECK(raw.to_compact().info().is_compact && raw.depth() >= 1);

    // A model of no phones that could begin or end words.
    const koshi::word_boundary none = koshi::word_boundary::from_memory(bytes("9999 singleton\n"));
    const auto aligned = made.lattice.align_words(model, none, koshi::lattice::align_defaults());
    CHECK(aligned.alignment == KOSHI_ALIGNMENT_NONE);
    CHECK(aligned.lattice.info().num_arcs == made.lattice.info().num_arcs);
}

// Counts what it is told.
class counter : public koshi::listener {
public:
    struct counts {
        int partials = 0, finished = 0, failed = 0;
        bool gone = false;
        std::string last, why;
    };
    explicit counter(counts &counts) : counts_(counts) {}
    ~counter() override { counts_.gone = true; }
    void partial(koshi::channel &from) override
    {
        ++counts_.partials;
        counts_.last = from.partial().path.text();
        throw std::runtime_error("dropped");
    }
    void finished(koshi::channel &) override { ++counts_.finished; }
    void failed(koshi::channel &, const koshi::error &error) override
    {
        ++counts_.failed;
        counts_.why = error.what();
        CHECK(error.status() == KOSHI_E_SCORES);
    }

private:
    counts &counts_;
};

void queued(const koshi::decoder &decoder, const koshi::rows &rows, const koshi::path &wanted)
{
    counter::counts counts;
    koshi::channel channel(decoder);
    channel.set_listener(std::make_unique<counter>(counts));
    channel.begin();
    for (std::size_t at = 0; at < rows.frames; at += 10)
        channel.submit(rows.slice(at, 10));
    channel.finish();
    CHECK(channel.wait());
    CHECK(channel.best_path(true).olabels().to_vector() == wanted.olabels().to_vector());
    CHECK(counts.partials > 0 && counts.finished == 1 && counts.failed == 0 && !counts.gone);
    CHECK(counts.last == channel.partial().path.text());

    const std::vector<float> nan(rows.columns, NAN);
    channel.begin();
    channel.submit({nan.data(), 1, rows.columns});
    CHECK(channel.try_wait().status() == KOSHI_E_SCORES);
    CHECK(counts.failed == 1 && counts.finished == 1 && counts.why.find("frame 0") != std::string::npos);
    channel.set_listener(nullptr);
    CHECK(counts.gone);

    bool gone = false;
    koshi::decodable source(std::make_unique<slow_scores>(rows, -1, &gone));
    channel.begin();
    channel.submit(source);
    channel.finish();
    CHECK(channel.wait(60) && channel.num_frames() == std::int64_t(rows.frames));
    const koshi_metrics metrics = decoder.metrics();
    CHECK(metrics.frames >= 2 * rows.frames && metrics.queued_frames == 0 && metrics.batches > 0);
}

void biased(koshi::channel &channel, const koshi::rows &rows, const koshi::path &wanted)
{
    const std::vector<std::int32_t> words = wanted.olabels().to_vector();
    channel.set_bias({{{words[0], words[1]}, 3.f}, {{words[2]}, -1.f}});
    channel.begin();
    channel.push(rows);
    CHECK(channel.best_path(true).bias_cost() == -2);
    const koshi::lattice raw = channel.lattice(true);
    CHECK(raw.bias_costs().size() == raw.arcs().size() && raw.final_bias_costs().size() == raw.final_costs().size());
    CHECK(raw.apply_bias(1).bias_costs().empty());
    CHECK(channel.try_set_bias({{{0}, 1.f}}).status() == KOSHI_E_CONFIG);
    channel.set_bias({});
    channel.begin();
    channel.push(rows);
    CHECK(channel.best_path(true).graph_cost() == wanted.graph_cost() && channel.lattice(true).bias_costs().empty());
}

void segments(const koshi::decoder &decoder, const koshi::rows &rows)
{
    koshi_endpoint_config config = koshi::decoder::endpoint_defaults();
    CHECK(config.rules[4].min_utterance_length == 20 && config.action == KOSHI_ENDPOINT_NOTE);
    config.rules[4].min_utterance_length = 0.5;
    config.action = KOSHI_ENDPOINT_SEGMENT;
    CHECK(decoder.try_set_endpoint_rules(config, std::vector<std::int32_t>{0}).status() == KOSHI_E_ARGUMENT);
    decoder.set_endpoint_rules(config, std::vector<std::int32_t>{1});
    koshi::channel channel(decoder);
    channel.begin();
    CHECK(channel.endpoint().rule == 0 && channel.push(rows) == KOSHI_OK);
    CHECK(channel.num_segments() == std::int64_t(rows.frames / 50));
    const koshi::closed_segment second = channel.segment(1);
    CHECK(second.end.rule == 5 && second.end.frames == 100 && second.end.first_frame == 50);
    CHECK(second.lattice.info().num_frames == 50 && second.path.ilabels().size() == 50);
    CHECK(channel.try_segment(1000).status() == KOSHI_E_ARGUMENT);
    CHECK(koshi::try_call(koshi_decoder_set_endpoint_rules, decoder.get(), nullptr, nullptr, std::size_t(0)));
}

void endless(const koshi::decoder &decoder, const koshi::rows &rows, const koshi::transitions &model,
             const koshi::path &wanted)
{
    koshi::channel channel(decoder);
    channel.set_determinize(&model);
    channel.set_commit(256, 10000);
    CHECK(channel.try_set_commit(1, 0).status() == KOSHI_E_CONFIG);
    channel.begin();
    for (int again = 0; again < 6; ++again) {
        channel.push(rows);
        channel.settle();
    }
    std::size_t pieces = 0;
    while (const auto piece = channel.committed()) {
        CHECK(piece->lattice.info().num_arcs > 0 && (pieces > 0 || piece->first_frame == 0));
        ++pieces;
    }
    CHECK(pieces > 0 && channel.num_committed() > 0);
    const auto rest = channel.compact_lattice(false);
    CHECK(rest.complete && rest.lattice.info().is_compact);
    CHECK(rest.lattice.info().num_frames == std::uint64_t(channel.num_frames() - channel.num_committed()));
    const koshi::partial_path last = channel.partial_words(wanted.olabels().size());
    CHECK(last.stable_words >= wanted.olabels().size());
}

void decoding()
{
    const koshi::transitions model = koshi::transitions::read(file("trans.mdl"));
    const koshi::symbols names = koshi::symbols::read(file("words.txt"));
    const koshi::decoder decoder(koshi::graph::read(file("HCLG.fst"), &model), options());
    CHECK(decoder.info().num_lanes >= 1 && model.pdf(1) >= 0 && model.num_ids() > model.num_pdfs());

    koshi::matrix_reader reader("ark:" + file("loglikes.ark"));
    std::optional<koshi::entry<koshi::matrix>> entry = reader.next();
    CHECK(entry && entry->key == "allison-conf-muted");
    const koshi::rows rows = entry->value.rows();
    koshi::channel channel(decoder);
    CHECK(channel.try_push(rows).status() == KOSHI_E_STATE);
    channel.begin();
    std::size_t stable = 0;
    for (std::size_t at = 0; at < rows.frames; at += 10) {
        channel.push(rows.slice(at, 10));
        const koshi::partial_path now = channel.partial();
        CHECK(now.stable_words >= stable && now.stable_words <= now.path.olabels().size());
        stable = now.stable_words;
    }
    channel.finish();
    CHECK(channel.num_frames() == std::int64_t(rows.frames) && channel.reached_final());
    const koshi::path best = channel.best_path(true);
    CHECK(best.text(&names) == "YOU ARE NOW MUTED" || best.text(&names) == "you are now muted");
    CHECK(best.text() == "577 32 326 310" && best.frames().size() == 4 && best.graph_cost() > 0);
    CHECK(channel.stats().frames == rows.frames);
    lattices(channel, model, names);
    pulled(channel, rows, best);

    koshi::channel second(decoder);
    second.begin();
    channel.begin();
    koshi_decoder_item items[2] = {{channel.get(), rows.data, rows.frames, rows.columns, rows.stride, 0, 0},
                                   {second.get(), rows.data, 5, rows.columns, rows.stride, 0, 0}};
    CHECK(decoder.advance({items, 2}) && second.num_frames() == 5);
    items[1].dim = 1;
    items[1].stride = 1;
    CHECK(!decoder.advance({items, 2}) && items[0].status == KOSHI_OK && items[1].status == KOSHI_E_SHAPE);
    std::thread([&] { second.cancel(); }).join();
    CHECK(second.try_push(rows).status() == KOSHI_E_CANCELLED);

    queued(decoder, rows, best);
    biased(channel, rows, best);
    segments(decoder, rows);
    endless(decoder, rows, model, best);

    std::size_t more = 0;
    while (reader.next())
        ++more;
    CHECK(more > 5 && !reader.next());
}

void tables()
{
    char name[] = "/tmp/koshi-raii-XXXXXX";
    const int descriptor = mkstemp(name);
    CHECK(descriptor >= 0);
    FILE *const made = fdopen(descriptor, "w");
    CHECK(made != nullptr && fclose(made) == 0);
    const std::string table = std::string("ark,t:") + name;
    const koshi::lattice lattice = koshi::lattice::from_memory(bytes("\n0\t1\t10\t0.5,2,2_1_4\n1\t0,0,6\n\n"));
    {
        koshi::lattice_writer writer(table);
        writer.write("a", lattice);
        writer.write("b", lattice);
        writer.close();
    }
    koshi::lattice_reader reader(table);
    CHECK(reader.next()->key == "a" && reader.next()->value.info().num_arcs == 1 && !reader.next());
    {
        koshi::int_writer writer(table);
        writer.write("a", std::vector<std::int32_t>{1, 2, 3});
        writer.close();
    }
    FILE *const read = fopen(name, "r");
    char line[32] = "";
    CHECK(read != nullptr && fgets(line, sizeof line, read) != nullptr && strcmp(line, "a 1 2 3 \n") == 0);
    CHECK(fclose(read) == 0 && remove(name) == 0);
    CHECK(caught([] { koshi::matrix_reader reader("nonsense"); }).status() == KOSHI_E_ARGUMENT);
    CHECK(koshi::lattice_writer::try_open("ark:/nonexistent/a").status() == KOSHI_E_IO);
}

void models()
{
    const char *const arpa = "\\data\\\nngram 1=3\n\n\\1-grams:\n-0.5 one\n-1 </s>\n-99 <s>\n\n\\end\\\n";
    const koshi::symbols names = koshi::symbols::from_memory(bytes("<eps> 0\none 1\n<s> 2\n</s> 3\n"));
    const auto model = koshi::language_model::try_from_memory(bytes(arpa), &names);
    CHECK(model);
    const double cost = model.value().cost(std::vector<std::int32_t>{1});
    CHECK(cost > 1.5 * 2.3 - 0.01 && cost < 1.5 * 2.31);
    const koshi::lattice one = koshi::lattice::from_memory(bytes("\n0\t1\t1\t0.5,2,2_1_4\n1\t0,0,6\n\n"));
    CHECK(one.rescore(nullptr, model.value(), 1).info().best_graph_cost > 0.5 + cost - 0.01);
}

// What has no class of its own.
void the_rest()
{
    const auto failed = koshi::try_make<koshi_den_graph>(koshi_den_graph_read, "/nonexistent", 3);
    CHECK(failed.status() == KOSHI_E_IO);
    koshi::handle<koshi_symbols> made =
        koshi::make<koshi_symbols>(koshi_symbols_from_memory, bytes("<eps> 0\n").data(), std::size_t(8));
    CHECK(koshi_symbols_size(made.get()) == 1);
    CHECK(koshi::call(koshi_tables_allow_commands, 0) == KOSHI_OK);
}

void logs()
{
    int lines = 0;
    bool gone = false;
    struct last_word {
        bool *gone;
        ~last_word() { *gone = true; }
    };
    auto word = std::make_shared<last_word>(last_word{&gone});
    gone = false; // of the temporary
    koshi::log_to(
        [&lines, word](koshi_log_level, std::string_view, std::string_view message) {
            lines += !message.empty();
            throw std::runtime_error("dropped");
        },
        KOSHI_LOG_TRACE);
    word.reset();
    const koshi::graph graph = koshi::graph::read(file("HCLG.fst"), nullptr);
    const koshi::decoder decoder(graph);
    koshi::log_to(nullptr, KOSHI_LOG_OFF);
    CHECK(lines > 0 && gone);
}

} // namespace

int main()
{
    errors();
    owners();
    decoding();
    tables();
    models();
    the_rest();
    logs();
    return 0;
}

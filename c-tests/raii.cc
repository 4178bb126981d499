// The C++ header: owners, errors both ways, and the same results as the C interface underneath.

#include "koshi.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#if __cplusplus >= 202002L
#include <span>
#endif
#include <thread>
#include <type_traits>

#include "fst.h"

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

// A file that is gone at the end.
struct temporary {
    std::string name = "/tmp/koshi-raii-XXXXXX";
    temporary()
    {
        const int descriptor = mkstemp(name.data());
        CHECK(descriptor >= 0);
        FILE *const made = fdopen(descriptor, "w");
        CHECK(made != nullptr && fclose(made) == 0);
    }
    ~temporary() { CHECK(remove(name.c_str()) == 0); }
};

// What a body throws: the error, or the text of another exception.
template <class Thrown, class Body>
std::string caught(Body body)
{
    try {
        body();
    } catch (const Thrown &thrown) {
        return thrown.what();
    }
    return "(nothing was thrown)";
}

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

std::size_t length(koshi::span<const std::int32_t> all)
{
    return all.size();
}

void spans()
{
    const std::vector<std::int32_t> fixed = {1, 2, 3};
    std::array<std::int32_t, 2> array = {4, 5};
    std::int32_t plain[] = {6};
    CHECK(length(fixed) == 3 && length(array) == 2 && length(plain) == 1 && length({}) == 0);
    koshi::span<std::int32_t> changed = array;
    changed[1] = 7;
    CHECK(array[1] == 7 && length(changed.to_vector()) == 2);
    static_assert(!std::is_constructible_v<koshi::span<std::int32_t>, const std::vector<std::int32_t> &>);
    static_assert(!std::is_constructible_v<koshi::span<const std::int32_t>, const std::vector<float> &>);
#if __cplusplus >= 202002L
    CHECK(length(std::span<const std::int32_t>(fixed)) == 3);
    const koshi::span<const std::int32_t> ours = fixed;
    CHECK(std::span<const std::int32_t>(ours).size() == 3);
#endif
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
    // Without options all is at the scale of the search.
    const koshi::determinized_lattice at_scale = raw.determinize(&model);
    CHECK(at_scale.complete && at_scale.lattice.nbest(1, scale)[0].olabels().to_vector() == best.olabels().to_vector());
    CHECK(at_scale.lattice.words().expected_errors() == at_scale.lattice.words(config).expected_errors());
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
    koshi::decodable there = koshi::decodable::from_matrix(rows);
    channel.begin();
    CHECK(channel.advance(there) == rows.frames && channel.best_path(true).text() == best.text());
    CHECK(koshi::decodable::try_from_matrix({rows.data, 1, 2, 1}).status() == KOSHI_E_SHAPE);
    if (decoder.info().backend == KOSHI_BACKEND_CPU)
        CHECK(channel.try_push_device(64, 1, rows.columns, rows.columns).status() == KOSHI_E_UNSUPPORTED);

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
    const temporary file;
    const std::string table = "ark,t:" + file.name;
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
    FILE *const read = fopen(file.name.c_str(), "r");
    char line[32] = "";
    CHECK(read != nullptr && fgets(line, sizeof line, read) != nullptr && strcmp(line, "a 1 2 3 \n") == 0);
    CHECK(fclose(read) == 0);
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

// A den.fst of one state with a loop for each of two pdfs, as the bytes of an OpenFst file.
std::string den_file()
{
    const float finals[] = {INFINITY};
    const fst_arc arcs[] = {{0, 1, 1, 0.7f, 0}, {0, 2, 2, 1.4f, 0}};
    const struct bytes made = fst_bytes(0, 1, finals, arcs, 2);
    std::string file(reinterpret_cast<const char *>(made.data), made.size);
    free(made.data);
    return file;
}

void chain()
{
    const char *const said = "<Supervision> <Weight> 0.5 <NumSequences> 1 <FramesPerSeq> 2 <LabelDim> 2 <End2End> F \n"
                             "0 1 1 1\n1 2 2 2\n2 0\n\n</Supervision> ";
    const koshi::den_graph graph = koshi::den_graph::from_memory(bytes(den_file()), 2);
    CHECK(graph.num_states() == 1 && graph.num_pdfs() == 2 && graph.initial_probs().to_vector() == std::vector{1.f});
    CHECK(koshi::den_graph::try_read("/nonexistent", 2).status() == KOSHI_E_IO && graph.share().get() == graph.get());
    std::vector<koshi::supervision> parts;
    for (int at = 0; at < 2; ++at)
        parts.push_back(koshi::supervision::from_memory(bytes(said)));
    const koshi::supervision both = koshi::supervision::merge(parts);
    CHECK(both.num_sequences() == 2 && both.frames_per_sequence() == 2 && both.num_pdfs() == 2);
    CHECK(both.weight() == 0.5f && !both.is_end_to_end());
    const std::string text = both.to_memory(false).to_string();
    CHECK(koshi::supervision::from_memory(bytes(text)).to_memory(false).to_string() == text);
    CHECK(koshi::supervision::try_merge({}).status() == KOSHI_E_ARGUMENT);

    koshi_chain_config config = koshi::chain_defaults();
    config.backend = KOSHI_BACKEND_CPU;
    const std::vector<float> output = {1, -1, 0.5f, 0, -0.25f, 2, 0.75f, 1.5f};
    const koshi::rows rows(output.data(), 4, 2);
    std::vector<float> deriv(8, 7.f), xent(8, 7.f), sum(8, 0.f);
    const auto found = koshi::chain_objf(graph, both, config, rows, {deriv.data(), 2}, {xent.data(), 2});
    CHECK(found.complete && found.weight == 0.5 * 4 && found.l2_term == 0);
    const auto den = koshi::chain_denominator(graph, config, 2, rows, {sum.data(), 2}, -0.5f);
    const auto num = koshi::chain_numerator(both, rows, {sum.data(), 2});
    CHECK(den.complete && num.complete && std::fabs(num.logprob - 0.5 * den.logprob - found.objf) < 1e-4);
    for (std::size_t at = 0; at < sum.size(); ++at)
        CHECK(std::fabs(sum[at] - deriv[at]) < 1e-4f && xent[at] >= 0);
    koshi::chain_penalize_out_of_range(1, 1, rows, {sum.data(), 2});
    CHECK(std::fabs(sum[5] - (deriv[5] - 1)) < 1e-4f);
    CHECK(koshi::try_chain_objf(graph, both, config, {output.data(), 3, 2}).status() == KOSHI_E_SHAPE);
    const std::vector<std::uint32_t> one = {2};
    CHECK(koshi::try_chain_denominator(graph, config, 2, rows, {}, 1, one).status() == KOSHI_E_SHAPE);
}

// Networks that spell label 1 in each frame whose number is that of labels so far. States are counted.
class spelling : public koshi::networks {
public:
    struct counts {
        int states = 0, lm_rows = 0;
        bool fail = false, gone = false;
    };
    explicit spelling(counts &counts) : counts_(counts) {}
    ~spelling() override { counts_.gone = true; }
    void predict(koshi::span<const std::uint64_t> states_in, koshi::span<const std::int32_t> labels,
                 koshi::span<std::uint64_t> states_out, koshi::span<float> outputs) override
    {
        CHECK(labels.size() == states_in.size() && outputs.size() == states_in.size());
        for (std::size_t at = 0; at < states_in.size(); ++at) {
            states_out[at] = labels[at] == 0 ? 0 : states_in[at] + 1;
            outputs[at] = float(states_out[at]);
            ++counts_.states;
        }
    }
    void join(const koshi::rows &encoder_rows, const koshi::rows &outputs, koshi::span<float> scores) override
    {
        if (counts_.fail)
            throw std::runtime_error("no network");
        CHECK(encoder_rows.columns == 2 && outputs.columns == 1 && scores.size() == 3 * outputs.frames);
        for (std::size_t at = 0; at < outputs.frames; ++at) {
            const bool due = encoder_rows.data[2 * at] == outputs.data[at];
            scores[3 * at] = due ? 0.f : 5.f;
            scores[3 * at + 1] = due ? 5.f : 0.f;
            scores[3 * at + 2] = -INFINITY;
        }
    }
    void release_state(koshi_transducer_part part, std::uint64_t) override
    {
        counts_.states -= part == KOSHI_TRANSDUCER_PREDICTOR;
    }
    void lm_predict(koshi::span<const std::uint64_t> states_in, koshi::span<const std::int32_t>,
                    koshi::span<std::uint64_t> states_out, koshi::span<float> log_probs) override
    {
        counts_.lm_rows += int(states_in.size());
        CHECK(log_probs.size() == 3 * states_in.size());
        for (std::uint64_t &state : states_out)
            state = 0;
        for (float &log_prob : log_probs)
            log_prob = -1;
    }

private:
    counts &counts_;
};

void transducers()
{
    spelling::counts counts;
    const std::vector<std::int32_t> ones(4, 1);
    const std::vector<float> encoder = {0, 0, 1, 0, 2, 0, 3, 0};
    const koshi::rows rows(encoder.data(), 4, 2);
    koshi_transducer_config config = koshi::transducer::defaults();
    config.nbest = 2;
    config.lm_weight = 0.5f;
    koshi::network_sizes sizes;
    sizes.vocab_size = 3;
    sizes.encoder_dim = 2;
    sizes.output_dim = 1;
    sizes.language_model = true;
    {
        koshi::transducer transducer(std::make_unique<spelling>(counts), sizes);
        koshi::transducer_stream stream(transducer, config);
        stream.push(rows.slice(0, 2));
        CHECK(stream.num_frames() == 2 && stream.partial().list.labels(0).size() == 2);
        stream.push(rows.slice(2, 2));
        CHECK(stream.commit().size() == 1);
        const koshi::found_hypotheses found = stream.finish();
        CHECK(found.complete && found.list.size() == 2 && stream.try_push(rows).status() == KOSHI_E_STATE);
        CHECK(found.list.finished(0) && found.list.posterior(0) >= found.list.posterior(1));
        CHECK(counts.lm_rows > 0 && transducer.call_counts().lm_rows == std::uint64_t(counts.lm_rows));

        auto all = transducer.search({rows, {encoder.data(), 4, 1}}, config);
        CHECK(all.size() == 2 && all[0] && all[1].status() == KOSHI_E_SHAPE && all[1].failure().what()[0] != '\0');
        const koshi::hypotheses &list = all[0].value().list;
        CHECK(list.labels(0).to_vector() == ones && list.frames(0)[3] == 3 && list.log_probs(0).size() == 4);
        CHECK(list.lm_scores(0)[0] == -0.5f && list.bias_scores(0)[0] == 0 && list.share().get() == list.get());
        CHECK(list.score(0) <= 0 && list.normalised_score(0) >= list.score(0) && std::isfinite(list.full_score(0)));
        CHECK(list.labels(99).empty());

        transducer.set_bias({{{1, 1}, 4.f}});
        CHECK(transducer.search({rows}, config)[0].value().list.bias_scores(0)[0] > 0);
        CHECK(transducer.try_set_bias({{{0}, 1.f}}).status() == KOSHI_E_CONFIG);

        koshi::transducer_stream other(transducer, config);
        koshi_transducer_item item = {other.get(), rows.data, 4, 2, 2, 0, 1};
        CHECK(transducer.advance({&item, 1}) && other.finish().list.labels(0).to_vector() == ones);
        koshi::transducer_stream stopped(transducer, config);
        stopped.cancel();
        CHECK(stopped.try_push(rows).status() == KOSHI_E_CANCELLED && !transducer.thrown());
        counts.fail = true;
        koshi::transducer_stream failing(transducer, config);
        CHECK(failing.try_push(rows).status() == KOSHI_E_CALLBACK);
        CHECK(caught<std::runtime_error>([&] { std::rethrow_exception(transducer.thrown()); }) == "no network");
        transducer.reset();
        CHECK(!counts.gone); // the streams still need the networks
    }
    CHECK(counts.gone && counts.states == 0);
    counts.gone = false;
    sizes.vocab_size = 1;
    CHECK(koshi::transducer::try_new(std::make_unique<spelling>(counts), sizes).status() == KOSHI_E_CONFIG);
    CHECK(counts.gone);
}

void examples()
{
    const std::vector<koshi_label> labels = {{3, 1}, {4, 0.5f}};
    const std::vector<float> rows = {0, 1, 2, 3, 4, 5, 6, 7};
    koshi_example_parts parts = koshi::example::parts();
    parts.left_context = 1;
    parts.labels = labels.data();
    parts.num_frames = 2;
    parts.rows = rows.data();
    parts.num_rows = 4;
    parts.dim = 2;
    parts.stride = 2;
    const std::vector<float> speaker = {0.5f};
    parts.speaker = speaker.data();
    parts.speaker_dim = 1;
    koshi::example example(parts);
    example.check();
    CHECK(example.info().num_rows == 4 && example.labels().size() == 2 && example.label_offsets()[2] == 2);
    CHECK(example.speaker()[0] == 0.5f && example.frames().frames == 4 && example.frames().columns == 2);
    CHECK(example.label(1).pdf == 4 && example.try_label(2).status() == KOSHI_E_ARGUMENT);
    const koshi::cut_example cut = example.extract(1, 1, 1, 1);
    CHECK(cut.complete && cut.example.label(0).weight == 0.5f && !example.extract(0, 9, 1, 1).complete);
    const std::string whole = example.to_memory(true).to_string();
    CHECK(koshi::example::from_memory(bytes(whole)).to_memory(true).to_string() == whole);

    koshi_degs_parts degs_parts = koshi::degs::parts();
    const std::vector<std::int32_t> alignment = {2, 1, 4};
    const koshi::lattice lattice = koshi::lattice::from_memory(bytes("\n0\t1\t10\t0.5,2,2_1_4\n1\t0,0,\n\n"));
    degs_parts.alignment = alignment.data();
    degs_parts.num_frames = 3;
    degs_parts.lattice = lattice.get();
    degs_parts.rows = rows.data();
    degs_parts.num_rows = 4;
    degs_parts.dim = 2;
    degs_parts.stride = 2;
    const koshi::degs degs(degs_parts);
    degs.check();
    CHECK(degs.weight() == 1 && degs.alignment().to_vector() == alignment && degs.lattice().info().num_arcs == 1);
    CHECK(degs.speaker().empty() && degs.frames().frames == 4 && degs.info().num_frames == 3);
    CHECK(koshi::degs::from_memory(degs.to_memory(false).bytes()).share().info().num_rows == 4);

    const temporary file;
    {
        koshi::egs_writer writer("ark:" + file.name, KOSHI_EGS_NNET);
        writer.write("a", example);
        writer.write("b", cut.example);
        CHECK(writer.try_write("c", degs).status() == KOSHI_E_STATE);
        writer.close();
    }
    {
        koshi::egs_reader reader("ark:" + file.name, KOSHI_EGS_NNET);
        CHECK(reader.next()->key == "a" && reader.next()->value.info().num_frames == 1 && !reader.next());
        koshi::egs_table table("ark:" + file.name, KOSHI_EGS_NNET);
        CHECK(table.find("b") && !table.find("c"));
    }
    {
        koshi::egs_writer writer("ark:" + file.name, KOSHI_EGS_DISCRIMINATIVE);
        writer.write("a", degs);
        writer.close();
    }
    koshi::egs_reader reader("ark:" + file.name, KOSHI_EGS_DISCRIMINATIVE);
    CHECK(reader.next_degs()->value.alignment().size() == 3 && !reader.next_degs());
    koshi::egs_table table("ark:" + file.name, KOSHI_EGS_DISCRIMINATIVE);
    CHECK(table.find_degs("a") && !table.find_degs("b") && table.try_find("a").status() == KOSHI_E_STATE);

    koshi::examples_repository repository(10);
    std::vector<koshi::example> given;
    given.push_back(std::move(example));
    given.push_back(koshi::example(parts));
    repository.accept(given);
    CHECK(given.empty() && repository.provide(1).size() == 1);
    given.push_back(koshi::example(parts));
    repository.done();
    CHECK(repository.try_accept(given).status() == KOSHI_E_STATE && given.size() == 1 && given[0]);
    CHECK(repository.provide(9).size() == 1 && repository.provide(9).empty());
    repository.cancel();
    CHECK(repository.try_provide(1).status() == KOSHI_E_CANCELLED);
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
    koshi::allow_commands(false);
    CHECK(koshi::matrix_reader::try_open("ark:true |").status() == KOSHI_E_UNSUPPORTED);
    CHECK((koshi::cuda_device_count() == 0) == !koshi::cuda_why_not().empty());
    CHECK(koshi::try_cuda_device_info(koshi::cuda_device_count()).status() == KOSHI_E_NO_DEVICE);
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
    spans();
    owners();
    decoding();
    tables();
    models();
    chain();
    transducers();
    examples();
    the_rest();
    logs();
    return 0;
}

// Kaldi's classes of koshi_kaldi.hpp over the bundled prompts: each result is held to that of the native classes,
// lattices arc for arc and bit for bit. With the argument `cuda` the searches run on a GPU.

#include <cmath>
#include <dlfcn.h>
#include <iostream>
#include <map>
#include <sstream>
#include <thread>

#include "koshi_kaldi.hpp"

namespace {

using koshi::kaldi::LatticeFasterDecoder;
using koshi::kaldi::LatticeFasterDecoderConfig;
using koshi::kaldi::LatticeFasterOnlineDecoder;
using koshi::kaldi::OnlineEndpointConfig;
using koshi::kaldi::cuda_decoder::ChannelId;
using koshi::kaldi::cuda_decoder::CudaDecoder;
using koshi::kaldi::cuda_decoder::CudaDecoderConfig;
using koshi::kaldi::cuda_decoder::CudaFst;

bool on_gpu = false;

#define MUST(condition)                                                                \
    do {                                                                                \
        if (!(condition)) {                                                             \
            std::cerr << __FILE__ << ":" << __LINE__ << ": not so: " #condition "\n";   \
            std::exit(1);                                                               \
        }                                                                               \
    } while (0)

#define MUST_THROW(wanted, statement)                                                 \
    do {                                                                                \
        bool thrown_ = false;                                                           \
        try {                                                                           \
            statement;                                                                  \
        } catch (const koshi::error &error) {                                           \
            thrown_ = error.status() == (wanted) && error.what()[0] != '\0';            \
        }                                                                               \
        MUST(thrown_ && #statement);                                                   \
    } while (0)

const std::string folder = "examples/data/prompts/";
const float scale = 0.083333f;
const float infinity = std::numeric_limits<float>::infinity();

struct Prompt {
    std::string key;
    int frames, columns;
    // Scaled: Kaldi's decodables give scaled log-likelihoods.
    std::vector<float> rows;

    const float *row(int frame) const { return rows.data() + std::size_t(frame) * std::size_t(columns); }
};

struct Data {
    koshi::transitions model = koshi::transitions::read(folder + "trans.mdl");
    koshi::graph graph = koshi::graph::read(folder + "HCLG.fst", &model);
    std::unique_ptr<fst::StdFst> fst{fst::StdFst::Read(folder + "HCLG.fst")};
    std::vector<Prompt> prompts;

    Data()
    {
        MUST(fst != nullptr);
        koshi::matrix_reader reader("ark:" + folder + "loglikes.ark");
        while (auto entry = reader.next()) {
            const koshi::rows rows = entry->value.rows();
            Prompt prompt{entry->key, int(rows.frames), int(rows.columns), {}};
            for (std::size_t at = 0; at < rows.frames * rows.columns; ++at)
                prompt.rows.push_back(scale * rows.data[at]);
            prompts.push_back(std::move(prompt));
        }
        MUST(prompts.size() == 12);
        if (on_gpu) {
            // The device is software: a few frames of two prompts.
            prompts.erase(prompts.begin() + 2, prompts.end());
            for (Prompt &prompt : prompts)
                prompt.frames = std::min(prompt.frames, 24);
        }
    }
};

const Data &data()
{
    static const Data data;
    return data;
}

// What has the members of Kaldi's transition models that are asked for.
struct Model {
    std::int32_t NumTransitionIds() const { return data().model.num_ids(); }
    std::int32_t TransitionIdToPdf(std::int32_t id) const { return data().model.pdf(id); }
    std::int32_t TransitionIdToPhone(std::int32_t id) const { return data().model.phone(id); }
};

// A decodable in the way of Kaldi's DecodableMatrixScaledMapped.
class Mapped : public kaldi::DecodableInterface {
public:
    explicit Mapped(const Prompt &prompt) : prompt(prompt), ready(prompt.frames) {}

    float LogLikelihood(std::int32_t frame, std::int32_t index) override
    {
        MUST(frame >= 0 && frame < prompt.frames && index >= 1 && index <= NumIndices());
        if (frame == throws_at)
            throw std::out_of_range("no frame for you");
        if (frame == nan_at)
            return std::nanf("");
        if (frame == nothing_from)
            return -infinity;
        MUST(nothing_from < 0 || frame < nothing_from);
        return prompt.row(frame)[data().model.pdf(index)];
    }
    bool IsLastFrame(std::int32_t frame) const override
    {
        MUST(frame < prompt.frames);
        if (frame >= 0 && frame == last_throws_at)
            throw std::logic_error("who knows");
        return frame == prompt.frames - 1;
    }
    std::int32_t NumFramesReady() const override { return ready; }
    std::int32_t NumIndices() const override
    {
        if (indices_throw)
            throw std::logic_error("no indices");
        return indices > 0 ? indices : data().model.num_ids();
    }

    const Prompt &prompt;
    int ready, throws_at = -1, nan_at = -1, nothing_from = -1, last_throws_at = -1, indices = 0;
    bool indices_throw = false;
};

// One that blocks until there are frames, and so does not know how many are ready.
class Blocking : public Mapped {
public:
    using Mapped::Mapped;
    std::int32_t NumFramesReady() const override { return kaldi::DecodableInterface::NumFramesReady(); }
};

koshi_decoder_config native_config(const LatticeFasterDecoderConfig &config)
{
    koshi_decoder_config native = koshi::decoder::defaults();
    native.backend = on_gpu ? KOSHI_BACKEND_CUDA : KOSHI_BACKEND_CPU;
    native.beam = config.beam;
    native.lattice_beam = config.lattice_beam;
    native.max_active = std::uint32_t(config.max_active);
    native.min_active = std::uint32_t(std::min(config.min_active, config.max_active));
    native.beam_delta = config.beam_delta;
    native.num_lanes = native.num_threads = 1;
    return native;
}

LatticeFasterDecoderConfig typical()
{
    LatticeFasterDecoderConfig config;
    config.beam = 13;
    config.lattice_beam = 6;
    config.max_active = 7000;
    config.place.backend = on_gpu ? KOSHI_BACKEND_CUDA : KOSHI_BACKEND_CPU;
    return config;
}

// The same utterance, or its first frames, by the native classes.
struct Native {
    koshi::decoder decoder;
    koshi::channel channel;

    Native(const Prompt &prompt, int frames, const koshi_decoder_config &config)
        : decoder(data().graph, config), channel(decoder)
    {
        channel.begin();
        channel.push({prompt.rows.data(), std::size_t(frames), std::size_t(prompt.columns)});
    }
    Native(const Prompt &prompt, int frames, const LatticeFasterDecoderConfig &config = typical())
        : Native(prompt, frames, native_config(config))
    {
    }
};

template <class Fst>
void check_same(const Fst &found, const Fst &wanted)
{
    MUST(found.NumStates() == wanted.NumStates() && found.Start() == wanted.Start());
    for (int state = 0; state < found.NumStates(); ++state) {
        MUST(found.Final(state) == wanted.Final(state));
        MUST(found.NumArcs(state) == wanted.NumArcs(state));
        fst::ArcIterator<Fst> one(found, state), other(wanted, state);
        for (; !one.Done(); one.Next(), other.Next()) {
            const auto &a = one.Value(), &b = other.Value();
            MUST(a.ilabel == b.ilabel && a.olabel == b.olabel && a.nextstate == b.nextstate && a.weight == b.weight);
        }
    }
}

// A lattice of the library's as OpenFst reads it from the bytes of a file.
template <class Fst>
Fst read_back(const koshi::lattice &lattice)
{
    std::istringstream stream(lattice.to_memory(KOSHI_LATTICE_BINARY).to_string());
    std::unique_ptr<Fst> read(Fst::Read(stream, fst::FstReadOptions("memory")));
    MUST(read != nullptr);
    return *read;
}

void check_raw(const kaldi::Lattice &found, const koshi::lattice &native)
{
    MUST(std::size_t(found.NumStates()) == native.final_costs().size());
    if (found.NumStates() > 0)
        check_same(found, read_back<kaldi::Lattice>(native));
}

// What a linear lattice says, and what it costs.
struct Line {
    std::vector<std::int32_t> ilabels, olabels;
    double graph = 0, acoustic = 0;

    explicit Line(const kaldi::Lattice &lattice)
    {
        int state = lattice.Start();
        MUST(lattice.NumStates() == 0 || state == 0);
        while (state >= 0 && lattice.NumArcs(state) > 0) {
            MUST(lattice.NumArcs(state) == 1 && lattice.Final(state) == kaldi::LatticeWeight::Zero());
            const auto arc = fst::ArcIterator<kaldi::Lattice>(lattice, state).Value();
            if (arc.ilabel != 0)
                ilabels.push_back(arc.ilabel);
            if (arc.olabel != 0)
                olabels.push_back(arc.olabel);
            add(arc.weight);
            state = arc.nextstate;
        }
        if (state >= 0)
            add(lattice.Final(state));
    }
    void add(const kaldi::LatticeWeight &weight)
    {
        graph += weight.Value1();
        acoustic += weight.Value2();
    }
};

bool near(double a, double b)
{
    return std::abs(a - b) <= 1e-9 * (1 + std::abs(a) + std::abs(b));
}

void check_best(const kaldi::Lattice &found, const koshi::path &native)
{
    const Line line(found);
    MUST(line.ilabels == native.ilabels().to_vector() && line.olabels == native.olabels().to_vector());
    MUST(near(line.graph, native.graph_cost()) && near(line.acoustic, native.acoustic_cost()));
}

koshi_determinize_config determinize_config(float beam)
{
    koshi_determinize_config config = koshi::lattice::determinize_defaults();
    config.beam = beam;
    config.phone_determinize = 0;
    return config;
}

// All results of a decoder of Kaldi's form are those of the native channel.
template <class Decoder, class Channel>
void check_results(const Decoder &decoder, Channel &&native)
{
    MUST(decoder.NumFramesDecoded() == native.num_frames());
    MUST(decoder.ReachedFinal() == native.reached_final());
    MUST(decoder.FinalRelativeCost() == native.final_relative_cost());
    for (bool use_final : {true, false}) {
        kaldi::Lattice raw, best;
        kaldi::CompactLattice compact;
        const koshi::lattice lattice = native.lattice(use_final);
        MUST(decoder.GetRawLattice(&raw, use_final) == (raw.NumStates() > 0));
        check_raw(raw, lattice);
        MUST(decoder.GetBestPath(&best, use_final) == (best.NumStates() > 0));
        check_best(best, native.best_path(use_final));
        const float beam = decoder.GetOptions().lattice_beam;
        MUST(decoder.GetLattice(&compact, use_final) == (compact.NumStates() > 0));
        const koshi::lattice determinized = lattice.determinize(nullptr, determinize_config(beam)).lattice;
        check_same(compact, read_back<kaldi::CompactLattice>(determinized));
    }
    kaldi::Lattice with_finals, by_default;
    MUST(decoder.GetRawLattice(&with_finals, true) && decoder.GetRawLattice(&by_default));
    check_same(by_default, with_finals);
}

void whole_utterances()
{
    LatticeFasterDecoder decoder(*data().fst, typical());
    int words = 0;
    for (const Prompt &prompt : data().prompts) {
        Mapped decodable(prompt);
        MUST(decoder.Decode(&decodable));
        Native native(prompt, prompt.frames);
        native.channel.finish();
        check_results(decoder, native.channel);
        kaldi::Lattice best;
        decoder.GetBestPath(&best);
        words += int(Line(best).olabels.size());
    }
    MUST(on_gpu || words > 40);
}

void frames_in_pieces()
{
    const Prompt &prompt = data().prompts[0];
    LatticeFasterOnlineDecoder decoder(*data().fst, typical());
    Mapped decodable(prompt);
    decoder.InitDecoding();
    MUST(decoder.NumFramesDecoded() == 0);
    int decoded = 0;
    for (int step = 1; decoded < prompt.frames; step = step % 9 + 2) {
        decodable.ready = std::min(prompt.frames, decoded + step);
        const int before = decoded;
        decoder.AdvanceDecoding(&decodable, 2);
        MUST(decoder.NumFramesDecoded() == std::min(before + 2, decodable.ready));
        decoder.AdvanceDecoding(&decodable, 0);
        decoder.AdvanceDecoding(&decodable);
        decoded = decoder.NumFramesDecoded();
        MUST(decoded == decodable.ready);
        if (before / 40 != decoded / 40)
            check_results(decoder, Native(prompt, decoded).channel);
    }
    decodable.ready -= 1;
    MUST_THROW(KOSHI_E_ARGUMENT, decoder.AdvanceDecoding(&decodable));
    decodable.ready += 1;
    decoder.FinalizeDecoding();
    Native native(prompt, prompt.frames);
    native.channel.finish();
    check_results(decoder, native.channel);
    // Behind the end the decodable has a frame more, which cannot be decoded.
    decodable.ready += 1;
    MUST_THROW(KOSHI_E_STATE, decoder.AdvanceDecoding(&decodable));

    // A decodable that blocks does not say what is ready.
    Blocking blocking(prompt);
    MUST(decoder.Decode(&blocking));
    check_results(decoder, native.channel);
}

// A few frames in, no final state is reached.
void no_final_state()
{
    const Prompt &prompt = data().prompts[1];
    LatticeFasterDecoder decoder(*data().fst, typical());
    int without = 0;
    for (int frames : {1, 2, 5, 11, 23}) {
        Mapped decodable(prompt);
        decodable.ready = frames;
        decoder.InitDecoding();
        decoder.AdvanceDecoding(&decodable);
        Native native(prompt, frames);
        without += !native.channel.reached_final();
        MUST(decoder.ReachedFinal() || decoder.FinalRelativeCost() == infinity);
        check_results(decoder, native.channel);
    }
    MUST(without > 0);
}

void exceptions_go_to_the_caller()
{
    const Prompt &prompt = data().prompts[0];
    LatticeFasterDecoder decoder(*data().fst, typical());
    Mapped decodable(prompt);
    decodable.throws_at = 10;
    decoder.InitDecoding();
    for (int again = 0; again < 2; ++again) {
        bool caught = false;
        try {
            decoder.AdvanceDecoding(&decodable);
        } catch (const std::out_of_range &thrown) {
            caught = std::string(thrown.what()) == "no frame for you";
        }
        MUST(caught && decoder.NumFramesDecoded() == 10);
    }
    decodable.throws_at = -1;
    decodable.indices_throw = true;
    bool caught = false;
    try {
        decoder.AdvanceDecoding(&decodable);
    } catch (const std::logic_error &thrown) {
        caught = std::string(thrown.what()) == "no indices";
    }
    MUST(caught);
    // What was decoded before is there, and the utterance goes on.
    decodable.indices_throw = false;
    decoder.AdvanceDecoding(&decodable);
    decoder.FinalizeDecoding();
    check_results(decoder, Native(prompt, prompt.frames).channel);

    decodable.last_throws_at = 3;
    caught = false;
    try {
        decoder.Decode(&decodable);
    } catch (const std::logic_error &) {
        caught = true;
    }
    MUST(caught && decoder.NumFramesDecoded() == 4);
    decodable.last_throws_at = -1;

    decodable.nan_at = 7;
    MUST_THROW(KOSHI_E_SCORES, decoder.Decode(&decodable));
    MUST(decoder.NumFramesDecoded() == 7);
    decodable.nan_at = -1;
    decodable.indices = 10;
    MUST_THROW(KOSHI_E_SHAPE, decoder.Decode(&decodable));
    decodable.indices = 0;
    MUST(decoder.Decode(&decodable));
    check_results(decoder, Native(prompt, prompt.frames).channel);
}

// The adapter alone, with a native channel: it asks how many frames are ready.
void the_adapter_alone()
{
    const Prompt &prompt = data().prompts[0];
    const koshi::graph graph = koshi::graph::read(folder + "HCLG.fst");
    const koshi::decoder decoder(graph, native_config(typical()));
    koshi::channel channel(decoder);
    channel.begin();
    Mapped decodable(prompt);
    decodable.ready = 9;
    koshi::kaldi::DecodableAdapter adapter(&decodable);
    std::uint64_t frames = 0;
    koshi::call(koshi_channel_advance, channel.get(), adapter.get(), std::int64_t(-1), &frames);
    MUST(frames == 9);
    adapter.Rethrow();
    decodable.ready = prompt.frames;
    koshi::call(koshi_channel_advance, channel.get(), adapter.get(), std::int64_t(-1), &frames);
    MUST(frames == std::uint64_t(prompt.frames - 9));
    kaldi::Lattice found;
    MUST(koshi::kaldi::FillLattice(channel.lattice(true), &found));
    check_raw(found, Native(prompt, prompt.frames).channel.lattice(true));
    Blocking blocking(prompt);
    koshi::kaldi::DecodableAdapter fails(&blocking);
    MUST(koshi::try_call(koshi_channel_advance, channel.get(), fails.get(), std::int64_t(-1), &frames).status() ==
          KOSHI_E_CALLBACK);
    bool caught = false;
    try {
        fails.Rethrow();
    } catch (const std::runtime_error &) {
        caught = true;
    }
    MUST(caught);
    fails.Rethrow();
}

void no_token_is_left()
{
    const Prompt &prompt = data().prompts[0];
    LatticeFasterOnlineDecoder decoder(*data().fst, typical());
    Mapped decodable(prompt);
    decodable.nothing_from = 6;
    kaldi::Lattice lattice;
    kaldi::CompactLattice compact;
    for (bool in_pieces : {false, true}) {
        if (in_pieces) {
            decoder.InitDecoding();
            for (decodable.ready = 3; decodable.ready < prompt.frames; decodable.ready += 2)
                decoder.AdvanceDecoding(&decodable);
            decodable.ready = prompt.frames;
            decoder.AdvanceDecoding(&decodable);
            decoder.FinalizeDecoding();
        } else {
            MUST(!decoder.Decode(&decodable));
        }
        MUST(decoder.NumFramesDecoded() == prompt.frames);
        MUST(!decoder.ReachedFinal() && decoder.FinalRelativeCost() == infinity);
        lattice.AddState();
        MUST(!decoder.GetRawLattice(&lattice) && lattice.NumStates() == 0);
        MUST(!decoder.GetBestPath(&lattice) && lattice.NumStates() == 0);
        MUST(!decoder.GetLattice(&compact) && compact.NumStates() == 0);
        MUST(!decoder.GetRawLatticePruned(&lattice, true, 3) && lattice.NumStates() == 0);
        MUST(decoder.BestPathEnd(true).Done());
    }
    decodable.nothing_from = -1;
    MUST(decoder.Decode(&decodable));
    check_results(decoder, Native(prompt, prompt.frames).channel);
}

void nothing_was_said()
{
    const Prompt empty{"empty", 0, data().prompts[0].columns, {}};
    Mapped decodable(empty);
    LatticeFasterDecoder decoder(*data().fst, typical());
    decoder.Decode(&decodable);
    MUST(decoder.NumFramesDecoded() == 0);
    kaldi::Lattice lattice;
    decoder.GetRawLattice(&lattice);
    koshi::decoder native(data().graph, native_config(typical()));
    koshi::channel channel(native);
    channel.begin();
    check_raw(lattice, channel.lattice(true));
}

void nothing_has_begun()
{
    Mapped decodable(data().prompts[0]);
    LatticeFasterDecoder decoder(*data().fst, typical());
    kaldi::Lattice lattice;
    MUST(decoder.NumFramesDecoded() == 0 && !decoder.ReachedFinal());
    MUST_THROW(KOSHI_E_STATE, decoder.AdvanceDecoding(&decodable));
    MUST_THROW(KOSHI_E_STATE, decoder.FinalizeDecoding());
    MUST_THROW(KOSHI_E_STATE, decoder.GetRawLattice(&lattice));
    MUST_THROW(KOSHI_E_STATE, decoder.GetBestPath(&lattice));
}

// Too little memory for a lattice's determinization keeps its best path alone.
void memory_of_get_lattice()
{
    const Prompt &prompt = data().prompts[0];
    Native native(prompt, prompt.frames);
    native.channel.finish();
    int arcs = 0;
    for (int max_mem : {0, 1}) {
        LatticeFasterDecoderConfig config = typical();
        config.det_opts.max_mem = max_mem;
        LatticeFasterDecoder decoder(*data().fst, config);
        Mapped decodable(prompt);
        decoder.Decode(&decodable);
        kaldi::CompactLattice compact;
        MUST(decoder.GetLattice(&compact));
        koshi_determinize_config options = determinize_config(config.lattice_beam);
        options.max_mem = std::uint64_t(max_mem);
        const koshi::lattice lattice = native.channel.lattice(true);
        check_same(compact, read_back<kaldi::CompactLattice>(lattice.determinize(nullptr, options).lattice));
        int found = 0;
        for (int state = 0; state < compact.NumStates(); ++state)
            found += int(compact.NumArcs(state));
        MUST(max_mem == 0 || found < arcs);
        arcs = found;
    }
}

void options_hold_from_the_next_utterance()
{
    const Prompt &prompt = data().prompts[1];
    LatticeFasterDecoder decoder(*data().fst, typical());
    Mapped decodable(prompt);
    decoder.Decode(&decodable);
    LatticeFasterDecoderConfig other = typical();
    other.beam = 8;
    other.lattice_beam = 2;
    other.max_active = 150; // below min_active, which Kaldi takes
    other.beam_delta = 0.25;
    decoder.SetOptions(other);
    MUST(decoder.GetOptions().beam == 8);
    decoder.Decode(&decodable);
    check_results(decoder, Native(prompt, prompt.frames, other).channel);
    other.max_active = 400;
    other.min_active = 300;
    decoder.SetOptions(other);
    decoder.Decode(&decodable);
    check_results(decoder, Native(prompt, prompt.frames, other).channel);
}

int deleted = 0;

struct Owned : fst::StdVectorFst {
    explicit Owned(const fst::StdFst &from) : fst::StdVectorFst(from) {}
    ~Owned() override { ++deleted; }
};

void graphs()
{
    const Prompt &prompt = data().prompts[0];
    Native native(prompt, prompt.frames);
    Mapped decodable(prompt);
    const fst::StdVectorFst vector(*data().fst);
    MUST(data().fst->Type() == "const" && vector.Type() == "vector");
    const auto made = koshi::kaldi::detail::graph_of(vector);
    MUST(koshi::kaldi::detail::graph_of(vector) == made);
    MUST(koshi::kaldi::detail::graph_of(*std::unique_ptr<fst::StdFst>(vector.Copy())) == made);
    const auto of_const = koshi::kaldi::detail::graph_of(*data().fst);
    MUST(of_const != made && koshi::kaldi::detail::graph_of(*data().fst) == of_const);
    MUST(koshi::kaldi::detail::graph_of(vector) == made);

    // A changed FST is another graph, also where it lies in the same place.
    fst::StdVectorFst changed(vector);
    MUST(koshi::kaldi::detail::graph_of(changed) == made);
    changed.AddArc(changed.Start(), fst::StdArc(1, 1, 0.5, changed.Start()));
    const auto other = koshi::kaldi::detail::graph_of(changed);
    MUST(other != made);
    MUST(other->made.info().num_arcs == made->made.info().num_arcs + 1);
    // So is one whose only change lies behind the arcs of its start.
    changed.SetFinal(changed.NumStates() - 1, 0.25);
    MUST(koshi::kaldi::detail::graph_of(changed) != other);
    {
        const LatticeFasterDecoder first(changed, typical());
        changed.SetFinal(0, 0.25);
        const LatticeFasterDecoder second(changed, typical());
    }

    // One that computes its arcs when they are asked for.
    using Same = fst::IdentityArcMapper<fst::StdArc>;
    const fst::ArcMapFst<fst::StdArc, fst::StdArc, Same> lazy(vector, Same());
    LatticeFasterDecoder over_lazy(lazy, typical());
    over_lazy.Decode(&decodable);
    check_results(over_lazy, native.channel);

    {
        LatticeFasterDecoder owner(typical(), new Owned(vector));
        owner.Decode(&decodable);
        check_results(owner, native.channel);
        MUST(deleted == 0);
    }
    MUST(deleted == 1);
    LatticeFasterDecoderConfig wrong = typical();
    wrong.beam = 0;
    MUST_THROW(KOSHI_E_CONFIG, LatticeFasterDecoder(wrong, new Owned(vector)));
    MUST(deleted == 2);

    LatticeFasterDecoder from_file(koshi::graph::read(folder + "HCLG.fst"), typical());
    from_file.Decode(&decodable);
    check_results(from_file, native.channel);

    const fst::StdVectorFst empty;
    MUST_THROW(KOSHI_E_GRAPH, LatticeFasterDecoder(empty, typical()));
}

// Takes what is registered.
class Registered : public kaldi::OptionsItf {
public:
    void Register(const std::string &name, bool *ptr, const std::string &doc) override { take(name, ptr, doc); }
    void Register(const std::string &name, std::int32_t *ptr, const std::string &doc) override { take(name, ptr, doc); }
    void Register(const std::string &name, std::uint32_t *ptr, const std::string &doc) override
    {
        take(name, ptr, doc);
    }
    void Register(const std::string &name, float *ptr, const std::string &doc) override { take(name, ptr, doc); }
    void Register(const std::string &name, double *ptr, const std::string &doc) override { take(name, ptr, doc); }
    void Register(const std::string &name, std::string *ptr, const std::string &doc) override { take(name, ptr, doc); }

    std::map<std::string, void *> places;
    std::map<std::string, std::string> values;

private:
    template <class T>
    void take(const std::string &name, T *place, const std::string &)
    {
        MUST(places.emplace(name, place).second);
        std::ostringstream text;
        text << *place;
        values[name] = text.str();
    }
};

void options()
{
    LatticeFasterDecoderConfig config;
    Registered registered;
    config.Register(&registered);
    const std::map<std::string, std::string> defaults = {
        {"beam", "16"}, {"beam-delta", "0.5"}, {"delta", "0.000976562"}, {"determinize-lattice", "1"},
        {"hash-ratio", "2"}, {"lattice-beam", "10"}, {"max-active", "2147483647"}, {"max-mem", "50000000"},
        {"min-active", "200"}, {"minimize", "0"}, {"phone-determinize", "1"}, {"prune-interval", "25"},
        {"word-determinize", "1"}};
    MUST(registered.values == defaults);
    const std::map<std::string, void *> places = {
        {"beam", &config.beam}, {"beam-delta", &config.beam_delta}, {"delta", &config.det_opts.delta},
        {"determinize-lattice", &config.determinize_lattice}, {"hash-ratio", &config.hash_ratio},
        {"lattice-beam", &config.lattice_beam}, {"max-active", &config.max_active},
        {"max-mem", &config.det_opts.max_mem}, {"min-active", &config.min_active},
        {"minimize", &config.det_opts.minimize}, {"phone-determinize", &config.det_opts.phone_determinize},
        {"prune-interval", &config.prune_interval}, {"word-determinize", &config.det_opts.word_determinize}};
    MUST(registered.places == places);
    config.Check();
    for (float *each :
         {&config.beam, &config.lattice_beam, &config.beam_delta, &config.hash_ratio, &config.prune_scale}) {
        const float kept = std::exchange(*each, 0.f);
        MUST_THROW(KOSHI_E_CONFIG, config.Check());
        *each = std::nanf("");
        MUST_THROW(KOSHI_E_CONFIG, config.Check());
        *each = kept;
    }
    for (std::int32_t *each : {&config.max_active, &config.prune_interval}) {
        const std::int32_t kept = std::exchange(*each, 0);
        MUST_THROW(KOSHI_E_CONFIG, config.Check());
        *each = kept;
    }
    config.Check();

    CudaDecoderConfig cuda;
    Registered of_cuda;
    cuda.Register(&of_cuda);
    const std::map<std::string, std::string> cuda_defaults = {
        {"aux-q-capacity", "-1"}, {"beam", "15"}, {"lattice-beam", "10"}, {"main-q-capacity", "-1"},
        {"max-active", "10000"}, {"ntokens-pre-allocated", "1000000"}};
    int rules = 0;
    for (const auto &[name, value] : of_cuda.values) {
        const auto found = cuda_defaults.find(name);
        MUST(found != cuda_defaults.end() ? found->second == value : name.rfind("endpoint.", 0) == 0);
        rules += name.rfind("endpoint.rule", 0) == 0;
    }
    MUST(rules == 20 && of_cuda.values.size() == cuda_defaults.size() + 21);
    const auto value = [&](const char *name) { return of_cuda.values.at(name); };
    MUST(value("endpoint.rule1.must-contain-nonsilence") == "0" && value("endpoint.rule2.max-relative-cost") == "2");
    MUST(value("endpoint.rule3.max-relative-cost") == "8" && value("endpoint.rule4.min-trailing-silence") == "2");
    MUST(value("endpoint.rule5.min-utterance-length") == "20" && value("endpoint.silence-phones") == "");
    MUST(of_cuda.places.at("endpoint.rule3.min-trailing-silence") ==
          &cuda.endpointing_config.rule3.min_trailing_silence);
    MUST(of_cuda.places.at("beam") == &cuda.default_beam && of_cuda.places.at("max-active") == &cuda.max_active);
    cuda.Check();
    cuda.ComputeConfig();
    MUST(cuda.main_q_capacity == 40000 && cuda.aux_q_capacity == 120000);
    cuda.max_active = 0;
    MUST_THROW(KOSHI_E_CONFIG, cuda.Check());

    OnlineEndpointConfig endpoints;
    Registered alone;
    endpoints.Register(&alone);
    endpoints.rule1.Register(&alone);
    MUST(alone.values.size() == 25 && alone.values.at("min-trailing-silence") == "5");
    const koshi::kaldi::OnlineEndpointRule rule;
    MUST(rule.must_contain_nonsilence && rule.min_trailing_silence == 1 && rule.max_relative_cost == infinity);
}

const char *const silence = "1:2:3:4:5:6:7:8:9:10";

void the_best_path_link_by_link()
{
    const Prompt &prompt = data().prompts[on_gpu ? 0 : 7]; // which ends in silence
    LatticeFasterOnlineDecoder decoder(*data().fst, typical());
    Mapped decodable(prompt);
    koshi_decoder_config config = native_config(typical());
    config.frame_shift = 0.01;
    const koshi::decoder native(data().graph, config);
    koshi_endpoint_config rules = koshi::decoder::endpoint_defaults();
    const std::vector<std::int32_t> phones = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    OnlineEndpointConfig asked;
    asked.silence_phones = silence;
    asked.rule4.min_trailing_silence = 0.07f;
    rules.rules[3].min_trailing_silence = 0.07;
    native.set_endpoint_rules(rules, phones);
    koshi::channel channel(native);
    channel.begin();
    decoder.InitDecoding();
    MUST(!EndpointDetected(asked, Model(), 0.01f, decoder));
    bool ended = false;
    for (int frame = 0; frame < prompt.frames; ++frame) {
        decodable.ready = frame + 1;
        decoder.AdvanceDecoding(&decodable);
        channel.push({prompt.row(frame), 1, std::size_t(prompt.columns)});
        const bool found = EndpointDetected(asked, Model(), 0.01f, decoder);
        if (!ended) {
            const koshi_endpoint endpoint = channel.endpoint();
            MUST(found == (endpoint.rule != 0));
            if (found) {
                MUST(endpoint.trailing_silence == std::uint64_t(TrailingSilenceLength(Model(), silence, decoder)));
            }
            ended = found;
        }
    }
    MUST(ended || on_gpu);
    MUST_THROW(KOSHI_E_CONFIG, TrailingSilenceLength(Model(), "1:x", decoder));
    MUST_THROW(KOSHI_E_CONFIG, TrailingSilenceLength(Model(), "1;2", decoder));
    decoder.FinalizeDecoding();
    MUST(decoder.TestGetBestPath(true));
    for (bool use_final : {true, false}) {
        kaldi::Lattice best;
        decoder.GetBestPath(&best, use_final);
        float final_cost = -1;
        auto iter = decoder.BestPathEnd(use_final, &final_cost);
        MUST(iter.frame == prompt.frames - 1);
        MUST(kaldi::LatticeWeight(final_cost, 0) == best.Final(best.NumStates() - 1));
        for (int state = best.NumStates() - 2;; --state) {
            MUST(!iter.Done());
            kaldi::LatticeArc arc(-1, -1, kaldi::LatticeWeight::Zero(), 77);
            const int frame = iter.frame;
            iter = decoder.TraceBackBestPath(iter, &arc);
            MUST(arc.nextstate == 77 && iter.frame == (arc.ilabel != 0 ? frame - 1 : frame));
            if (state < 0) {
                MUST(iter.Done() && arc.ilabel == 0 && arc.olabel == 0 && arc.weight == kaldi::LatticeWeight::One());
                break;
            }
            const auto wanted = fst::ArcIterator<kaldi::Lattice>(best, state).Value();
            MUST(arc.ilabel == wanted.ilabel && arc.olabel == wanted.olabel && arc.weight == wanted.weight);
        }
        MUST(iter.frame == -1);
        kaldi::LatticeArc arc;
        MUST_THROW(KOSHI_E_ARGUMENT, decoder.TraceBackBestPath(iter, &arc));
        kaldi::Lattice pruned;
        MUST(decoder.GetRawLatticePruned(&pruned, use_final, 2));
        check_raw(pruned, channel.lattice(use_final).prune(2, 1));
    }

    // The rules themselves.
    OnlineEndpointConfig config2;
    const auto ends = [&](int frames, int silent, float cost) {
        return EndpointDetected(config2, frames, silent, 0.1f, cost);
    };
    MUST(ends(50, 50, infinity) && !ends(49, 49, 0));         // 1
    MUST(ends(20, 5, 2) && !ends(20, 4, 0) && !ends(20, 5, 2.5f)); // 2
    MUST(ends(20, 10, 8) && !ends(20, 9, 8) && !ends(20, 10, 8.5f)); // 3
    MUST(ends(30, 20, infinity) && !ends(30, 19, infinity));  // 4
    MUST(ends(200, 0, infinity) && !ends(199, 0, 0));         // 5
}

// Rows in the memory of the GPU.
class DeviceRows {
public:
    explicit DeviceRows(const std::vector<float> &rows) : at_(0)
    {
        void *driver = dlopen("libcuda.so", RTLD_NOW);
        if (driver == nullptr)
            driver = dlopen("libcuda.so.1", RTLD_NOW);
        MUST(driver != nullptr);
        int device = 0;
        void *context = nullptr;
        MUST(function<int(int *, int)>(driver, "cuDeviceGet")(&device, 0) == 0);
        MUST(function<int(void **, int)>(driver, "cuDevicePrimaryCtxRetain")(&context, device) == 0);
        MUST(function<int(void *)>(driver, "cuCtxSetCurrent")(context) == 0);
        MUST(function<int(std::uint64_t *, std::size_t)>(driver, "cuMemAlloc_v2")(&at_, rows.size() * 4) == 0);
        MUST(function<int(std::uint64_t, const void *, std::size_t, void *)>(driver, "cuMemcpyHtoDAsync_v2")(
                  at_, rows.data(), rows.size() * 4, nullptr) == 0);
    }
    const float *at(std::size_t element) const { return reinterpret_cast<const float *>(at_ + element * 4); }

private:
    template <class Function>
    static Function *function(void *driver, const char *name)
    {
        void *found = dlsym(driver, name);
        MUST(found != nullptr);
        return reinterpret_cast<Function *>(found);
    }

    std::uint64_t at_;
};

CudaDecoderConfig cuda_config()
{
    CudaDecoderConfig config;
    config.default_beam = 13;
    config.lattice_beam = 6;
    config.max_active = 7000;
    config.place.backend = on_gpu ? KOSHI_BACKEND_CUDA : KOSHI_BACKEND_CPU;
    config.endpointing_config.silence_phones = silence;
    config.endpointing_config.rule4.min_trailing_silence = 0.07f;
    return config;
}

koshi_decoder_config native_cuda_config()
{
    koshi_decoder_config native = native_config(typical());
    native.min_active = 0;
    return native;
}

// A frame of a decodable's on the GPU, in the way of Kaldi's CudaDecodableInterface.
class OnDevice : public Mapped {
public:
    OnDevice(const Prompt &prompt, const DeviceRows *device) : Mapped(prompt), device(device) {}
    float *GetLogLikelihoodsCudaPointer(std::int32_t frame)
    {
        const std::size_t element = std::size_t(frame) * std::size_t(prompt.columns);
        return const_cast<float *>(device != nullptr ? device->at(element) : prompt.row(frame));
    }
    const DeviceRows *device;
};

void channels_and_lanes(bool device_memory)
{
    const auto &prompts = data().prompts;
    const Model model;
    const CudaFst cuda_fst(*data().fst, &model);
    MUST(cuda_fst.NumStates() == 17167 && cuda_fst.Start() == 0);
    CudaDecoderConfig config = cuda_config();
    config.memory = device_memory ? KOSHI_MEMORY_DEVICE : KOSHI_MEMORY_HOST;
    const int count = int(prompts.size());
    std::vector<DeviceRows> on_device;
    for (const Prompt &prompt : prompts) {
        if (device_memory)
            on_device.emplace_back(prompt.rows);
    }
    CudaDecoder decoder(cuda_fst, config, count, count + 1);
    MUST_THROW(KOSHI_E_STATE, decoder.AllowEndpointing());
    decoder.SetOutputFrameShiftInSeconds(0.01f);
    decoder.AllowEndpointing();
    koshi::kaldi::cuda_decoder::PartialHypothesis *partial = nullptr;
    MUST_THROW(KOSHI_E_STATE, decoder.GetPartialHypothesis(0, &partial));
    decoder.AllowPartialHypotheses();
    const std::unique_ptr<fst::SymbolTable> symbols(fst::SymbolTable::ReadText(folder + "words.txt"));
    const koshi::symbols native_symbols = koshi::symbols::read(folder + "words.txt");
    decoder.SetSymbolTable(*symbols);
    decoder.SetThreadPoolAndStartCPUWorkers(static_cast<int *>(nullptr), 2);

    // Channels in no particular order: prompt p is on channel (p * 5 + 1) mod (count + 1).
    const auto channel_of = [&](int prompt) { return ChannelId((prompt * 5 + 1) % (count + 1)); };
    std::vector<ChannelId> channels;
    std::vector<std::unique_ptr<Native>> natives;
    koshi_endpoint_config rules = koshi::decoder::endpoint_defaults();
    rules.rules[3].min_trailing_silence = 0.07;
    const std::vector<std::int32_t> phones = {1, 2, 3, 4, 5, 6, 7, 8, 9, 10};
    for (int at = 0; at < count; ++at) {
        channels.push_back(channel_of(at));
        natives.push_back(std::make_unique<Native>(prompts[std::size_t(at)], 0, native_cuda_config()));
        natives.back()->decoder.set_endpoint_rules(rules, phones);
        natives.back()->channel.begin();
    }
    for (int round = 0; round < (on_gpu ? 1 : 2); ++round) {
        decoder.InitDecoding(channels);
        for (auto &native : natives)
            native->channel.begin();
        int endpoints = 0, words = 0;
        for (int frame = 0;; ++frame) {
            std::vector<std::pair<ChannelId, const float *>> lanes;
            for (int at = 0; at < count; ++at) {
                const Prompt &prompt = prompts[std::size_t(at)];
                if (frame >= prompt.frames)
                    continue;
                const std::size_t element = std::size_t(frame) * std::size_t(prompt.columns);
                const float *row = device_memory ? on_device[std::size_t(at)].at(element) : prompt.row(frame);
                lanes.push_back({channel_of(at), row});
                natives[std::size_t(at)]->channel.push({prompt.row(frame), 1, std::size_t(prompt.columns)});
            }
            if (lanes.empty())
                break;
            decoder.AdvanceDecoding(lanes);
            for (int at = 0; frame % 16 == 3 && at < count; ++at) {
                koshi::channel &native = natives[std::size_t(at)]->channel;
                decoder.GetPartialHypothesis(channel_of(at), &partial);
                MUST(partial->out_str == native.partial().path.text(&native_symbols));
                words += !partial->out_str.empty();
                MUST(decoder.EndpointDetected(channel_of(at)) == (native.endpoint().rule != 0));
                MUST(decoder.NumFramesDecoded(channel_of(at)) == native.num_frames());
                endpoints += decoder.EndpointDetected(channel_of(at));
            }
        }
        MUST(on_gpu || (endpoints > 0 && words > 0));
    }
    for (bool use_final : {true, false}) {
        std::vector<kaldi::Lattice> raw(prompts.size()), best(prompts.size()), by_threads(prompts.size());
        std::vector<kaldi::Lattice *> raws, bests;
        for (std::size_t at = 0; at < prompts.size(); ++at) {
            raws.push_back(&raw[at]);
            bests.push_back(&best[at]);
        }
        decoder.GetRawLattice(channels, raws, use_final);
        decoder.GetBestPath(channels, bests, use_final);
        decoder.PrepareForGetRawLattice(channels, use_final);
        std::vector<std::thread> threads;
        for (std::size_t at = 0; at < prompts.size(); ++at)
            threads.emplace_back(
                [&, at] { decoder.ConcurrentGetRawLatticeSingleChannel(channels[at], &by_threads[at]); });
        for (std::thread &thread : threads)
            thread.join();
        for (std::size_t at = 0; at < prompts.size(); ++at) {
            koshi::channel &native = natives[at]->channel;
            check_raw(raw[at], native.lattice(use_final));
            check_same(by_threads[at], raw[at]);
            check_best(best[at], native.best_path(use_final));
        }
        if (use_final) {
            std::vector<kaldi::Lattice *> again = {&raw[0]};
            decoder.GetBestPath({channels[0]}, again);
            check_same(raw[0], best[0]);
        }
    }

    // By decodables, as many frames as all have; rows that are not const, as before.
    decoder.InitDecoding({0, 1});
    OnDevice one(prompts[0], device_memory ? &on_device[0] : nullptr);
    OnDevice two(prompts[1], device_memory ? &on_device[1] : nullptr);
    std::vector<OnDevice *> decodables = {&one, &two};
    one.ready = 9;
    two.ready = 12;
    decoder.AdvanceDecoding({0, 1}, decodables, 4);
    MUST(decoder.NumFramesDecoded(0) == 4 && decoder.NumFramesDecoded(1) == 4);
    decoder.AdvanceDecoding({0, 1}, decodables);
    MUST(decoder.NumFramesDecoded(0) == 9 && decoder.NumFramesDecoded(1) == 9);
    one.ready = 3;
    MUST_THROW(KOSHI_E_ARGUMENT, decoder.AdvanceDecoding({0, 1}, decodables));
    decodables.clear();
    decoder.AdvanceDecoding({}, decodables);
    const std::vector<std::pair<ChannelId, float *>> older = {{0, one.GetLogLikelihoodsCudaPointer(9)}};
    decoder.AdvanceDecoding(older);
    kaldi::Lattice lattice;
    std::vector<kaldi::Lattice *> out = {&lattice};
    decoder.GetRawLattice({0}, out, true);
    check_raw(lattice, Native(prompts[0], 10, native_cuda_config()).channel.lattice(true));
    MUST_THROW(KOSHI_E_ARGUMENT, decoder.NumFramesDecoded(count + 1));
    MUST_THROW(KOSHI_E_ARGUMENT, decoder.InitDecoding({-1}));

    // What befalls one channel is not the other's.
    std::vector<float> bad(std::size_t(prompts[0].columns), -infinity);
    std::vector<DeviceRows> bad_on_device;
    if (device_memory)
        bad_on_device.emplace_back(bad);
    const float *nothing = device_memory ? bad_on_device[0].at(0) : bad.data();
    decoder.InitDecoding({0, 1});
    const auto good = [&](int frame) { return two.GetLogLikelihoodsCudaPointer(frame); };
    decoder.AdvanceDecoding({{0, nothing}, {1, good(0)}});
    decoder.AdvanceDecoding({{0, nothing}, {1, good(1)}});
    MUST(decoder.NumFramesDecoded(0) == 2 && decoder.NumFramesDecoded(1) == 2);
    decoder.GetRawLattice({0}, out, true);
    MUST(lattice.NumStates() == 0);
    decoder.GetBestPath({0}, out, true);
    MUST(lattice.NumStates() == 0);
    decoder.GetPartialHypothesis(0, &partial);
    MUST(partial->out_str.empty());
    decoder.GetRawLattice({1}, out, true);
    check_raw(lattice, Native(prompts[1], 2, native_cuda_config()).channel.lattice(true));
    std::vector<float> not_a_number(bad);
    not_a_number[0] = std::nanf("");
    std::vector<DeviceRows> nan_on_device;
    if (device_memory)
        nan_on_device.emplace_back(not_a_number);
    const float *nan = device_memory ? nan_on_device[0].at(0) : not_a_number.data();
    decoder.InitDecoding({0});
    MUST_THROW(KOSHI_E_SCORES, decoder.AdvanceDecoding({{0, nan}, {1, good(2)}}));
    MUST(decoder.NumFramesDecoded(0) == 0);
    // A failure keeps no other channel from its frame, nor from the loss of all tokens.
    decoder.InitDecoding({0, 1, 2});
    MUST_THROW(KOSHI_E_SCORES, decoder.AdvanceDecoding({{0, nan}, {1, nothing}, {2, good(0)}}));
    for (ChannelId each : {0, 1, 2})
        MUST(decoder.NumFramesDecoded(each) == (each > 0));

    // Other options: all begins anew.
    config.default_beam = 9;
    decoder.ReadConfig(config);
    decoder.InitDecoding({0});
    for (int frame = 0; frame < 10; ++frame)
        decoder.AdvanceDecoding({{0, one.GetLogLikelihoodsCudaPointer(frame)}});
    decoder.GetRawLattice({0}, out, true);
    koshi_decoder_config narrow = native_cuda_config();
    narrow.beam = 9;
    check_raw(lattice, Native(prompts[0], 10, narrow).channel.lattice(true));
}

// Graphs for CudaDecoder: with and without a model, and from a file.
void cuda_graphs()
{
    fst::StdVectorFst small;
    small.AddState();
    small.AddState();
    small.SetStart(0);
    small.AddArc(0, fst::StdArc(1, 11, 0.5, 1));
    small.AddArc(0, fst::StdArc(2, 12, 0.25, 1));
    small.SetFinal(1, 0.125);
    struct Swapped {
        int NumTransitionIds() const { return 2; }
        int TransitionIdToPdf(int id) const { return 2 - id; }
        int TransitionIdToPhone(int id) const { return id; }
    } swapped;
    const float row[] = {-1, -2};
    const auto decode = [&](const CudaFst &cuda_fst) {
        CudaDecoderConfig config = cuda_config();
        config.memory = KOSHI_MEMORY_HOST;
        CudaDecoder decoder(cuda_fst, config, 1);
        decoder.InitDecoding({0});
        decoder.AdvanceDecoding({{0, row}});
        kaldi::Lattice lattice;
        std::vector<kaldi::Lattice *> out = {&lattice};
        decoder.GetBestPath({0}, out);
        return Line(lattice);
    };
    const CudaFst plain(small), null(small, nullptr), mapped(small, &swapped);
    MUST(plain.NumStates() == 2 && plain.Start() == 0);
    for (const CudaFst *each : {&plain, &null}) {
        const Line line = decode(*each);
        MUST(line.olabels == std::vector<std::int32_t>{11} && line.graph == 0.625 && line.acoustic == 1);
    }
    const Line line = decode(mapped);
    MUST(line.olabels == std::vector<std::int32_t>{12} && line.ilabels == std::vector<std::int32_t>{2});
    MUST(line.graph == 0.375 && line.acoustic == 1);
    CudaFst older;
    older.Initialize(small, &swapped);
    MUST(decode(older).olabels == line.olabels);
    older.Initialize(small, static_cast<const Swapped *>(nullptr));
    MUST(decode(older).olabels == decode(plain).olabels);
    older.Initialize(small, NULL);
    older.Finalize();
    MUST(older.NumStates() == 0 && older.Start() == fst::kNoStateId);
    // Silence is told by the phones of labels, and rules hold for what ReadConfig makes.
    struct Phones : Swapped {
        int TransitionIdToPhone(int id) const { return id == 2 ? 3 : 1; }
    } phones;
    const CudaFst with_phones(small, &phones);
    for (bool later : {false, true}) {
        for (const char *list : {"3", "2", "1"}) {
            CudaDecoderConfig config = cuda_config();
            config.memory = KOSHI_MEMORY_HOST;
            config.endpointing_config.silence_phones = list;
            config.endpointing_config.rule1.min_trailing_silence = 0.01f;
            CudaDecoderConfig first = config;
            if (later)
                first.endpointing_config.silence_phones = "";
            CudaDecoder decoder(with_phones, first, 1);
            decoder.SetOutputFrameShiftInSeconds(0.01f);
            decoder.AllowEndpointing();
            if (later)
                decoder.ReadConfig(config);
            decoder.InitDecoding({0});
            decoder.AdvanceDecoding({{0, row}});
            MUST(decoder.EndpointDetected(0) == (list[0] == '3'));
        }
    }
    const CudaFst from_file(data().graph);
    MUST(from_file.NumStates() == 17167);
    MUST_THROW(KOSHI_E_CONFIG, CudaDecoder(plain, cuda_config(), 2, 1));
    if (!on_gpu && koshi_cuda_device_count() == 0)
        MUST_THROW(KOSHI_E_NO_DEVICE, CudaDecoder(plain, CudaDecoderConfig(), 1));
}

} // namespace

int main(int argc, char **)
{
    on_gpu = argc > 1;
    whole_utterances();
    frames_in_pieces();
    no_final_state();
    exceptions_go_to_the_caller();
    the_adapter_alone();
    no_token_is_left();
    nothing_was_said();
    nothing_has_begun();
    memory_of_get_lattice();
    options_hold_from_the_next_utterance();
    options();
    the_best_path_link_by_link();
    channels_and_lanes(false);
    if (on_gpu)
        channels_and_lanes(true);
    else
        graphs();
    cuda_graphs();
    return 0;
}

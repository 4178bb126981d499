// Koshi behind the classes of Kaldi's decoders, for programs that are built with Kaldi:
//
//     #include "koshi_kaldi.hpp"                     // for "decoder/lattice-faster-decoder.h"
//
//     koshi::kaldi::LatticeFasterDecoderConfig config;
//     config.Register(&options);
//     koshi::kaldi::LatticeFasterDecoder decoder(*decode_fst, config);
//     decoder.Decode(&decodable);                    // a kaldi::DecodableInterface
//     kaldi::Lattice lattice;
//     decoder.GetRawLattice(&lattice);
//
// What has a name of Kaldi's here has its parameters, defaults and meaning; docs/kaldi.md tells what
// is covered, where results differ, and which revisions of Kaldi this is written for. Members that Kaldi
// has not are marked so. A call that fails throws koshi::error, and what a decodable throws goes on to the
// caller. Objects are used by one thread at a time, as in Kaldi.
//
// C++17, OpenFst 1.6 or later, and nothing to link but libkoshi.

#ifndef KOSHI_KALDI_HPP
#define KOSHI_KALDI_HPP

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <ostream>
#include <streambuf>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "fst/fstlib.h"
#include "itf/decodable-itf.h"
#include "itf/options-itf.h"
#include "lat/determinize-lattice-pruned.h"
#include "lat/kaldi-lattice.h"

#include "koshi.hpp"

namespace koshi {
namespace kaldi {

using ::kaldi::BaseFloat;
using ::kaldi::CompactLattice;
using ::kaldi::CompactLatticeArc;
using ::kaldi::CompactLatticeWeight;
using ::kaldi::DecodableInterface;
using ::kaldi::int32;
using ::kaldi::Lattice;
using ::kaldi::LatticeArc;
using ::kaldi::LatticeWeight;
using ::kaldi::OptionsItf;
using StdFst = ::fst::Fst<::fst::StdArc>;

static_assert(std::is_same<BaseFloat, float>::value, "Kaldi is built with double precision: Koshi searches in single");

// Not in Kaldi: where a decoder computes.
struct Place {
    // A koshi_backend.
    int32 backend = KOSHI_BACKEND_CPU;
    // Index of the GPU.
    int32 device = 0;
};

// Not in Kaldi: the column of each transition-id of a model, for graphs that read rows of pdfs. `Model` is
// kaldi::TransitionModel, or what else has NumTransitionIds and TransitionIdToPdf.
template <class Model>
std::vector<std::int32_t> PdfColumns(const Model &model)
{
    std::vector<std::int32_t> columns(1, -1);
    for (int32 id = 1; id <= model.NumTransitionIds(); ++id)
        columns.push_back(model.TransitionIdToPdf(id));
    return columns;
}

namespace detail {

// A stream's bytes, in memory.
class byte_sink : public std::streambuf {
public:
    span<const std::uint8_t> bytes() const noexcept
    {
        return {reinterpret_cast<const std::uint8_t *>(written_.data()), written_.size()};
    }

protected:
    int_type overflow(int_type letter) override
    {
        if (!traits_type::eq_int_type(letter, traits_type::eof()))
            written_.push_back(traits_type::to_char_type(letter));
        return traits_type::not_eof(letter);
    }
    std::streamsize xsputn(const char *from, std::streamsize count) override
    {
        written_.insert(written_.end(), from, from + count);
        return count;
    }

private:
    std::vector<char> written_;
};

inline bool is_in_arrays(const StdFst &fst)
{
    return fst.Type() == "vector" || fst.Type() == "const";
}

// Calls `read` with an FST as a file would hold it.
template <class Read>
graph graph_from(const StdFst &fst, Read read)
{
    byte_sink sink;
    std::ostream stream(&sink);
    ::fst::FstWriteOptions options("memory");
    options.write_isymbols = options.write_osymbols = options.align = false;
    const bool written =
        is_in_arrays(fst) ? fst.Write(stream, options) : ::fst::VectorFst<::fst::StdArc>(fst).Write(stream, options);
    if (!written)
        throw error(KOSHI_E_GRAPH, "OpenFst cannot write the graph");
    return read(sink.bytes());
}

// A graph and the FST that it was made of. The copy shares the FST's arrays with the original, and keeps
// them as they are: who changes the original gets arrays of his own.
struct kept_graph {
    std::unique_ptr<const StdFst> copy;
    graph made;
};

// Where the arcs of the start state lie; null where there are none.
inline const ::fst::StdArc *first_arc(const StdFst &fst)
{
    if (fst.Start() == ::fst::kNoStateId)
        return nullptr;
    const ::fst::ArcIterator<StdFst> arcs(fst, fst.Start());
    return arcs.Done() ? nullptr : &arcs.Value();
}

// The graph of an FST whose labels are the indices of a decodable. Programs make a decoder for each
// utterance: the graph is made once, and kept while a decoder has it or it is the last that was asked for.
inline std::shared_ptr<const kept_graph> graph_of(const StdFst &fst)
{
    static std::mutex lock;
    static std::vector<std::weak_ptr<const kept_graph>> all;
    static std::shared_ptr<const kept_graph> last;
    const std::lock_guard<std::mutex> locked(lock);
    const ::fst::StdArc *arcs = is_in_arrays(fst) ? first_arc(fst) : nullptr;
    all.erase(std::remove_if(all.begin(), all.end(), [](const auto &kept) { return kept.expired(); }), all.end());
    for (const auto &weak : all) {
        auto kept = weak.lock();
        if (kept && arcs != nullptr && fst.Type() == kept->copy->Type() && first_arc(*kept->copy) == arcs)
            return last = std::move(kept);
    }
    graph made = graph_from(fst, [](span<const std::uint8_t> bytes) { return graph::from_memory(bytes); });
    std::unique_ptr<const StdFst> copy(arcs != nullptr ? fst.Copy() : nullptr);
    auto kept = std::make_shared<const kept_graph>(kept_graph{std::move(copy), std::move(made)});
    if (arcs == nullptr)
        return kept;
    all.push_back(kept);
    return last = std::move(kept);
}

// States, arcs and final weights of `from`; make_arc(place, arc) and make_final(state, cost) give those of the type wanted.
template <class Fst, class MakeArc, class MakeFinal>
bool fill(const lattice &from, Fst *to, const MakeArc &make_arc, const MakeFinal &make_final)
{
    to->DeleteStates();
    const auto arcs = from.arcs();
    const auto offsets = from.arc_offsets();
    const auto finals = from.final_costs();
    to->ReserveStates(int(finals.size()));
    for (std::size_t state = 0; state < finals.size(); ++state)
        to->AddState();
    for (std::size_t state = 0; state < finals.size(); ++state) {
        const int source = int(state);
        to->ReserveArcs(source, offsets[state + 1] - offsets[state]);
        for (std::size_t at = offsets[state]; at < offsets[state + 1]; ++at)
            to->AddArc(source, make_arc(at, arcs[at]));
        // A state that is not final has two infinite costs, which is Kaldi's zero.
        to->SetFinal(source, make_final(state, LatticeWeight(finals[state].graph_cost, finals[state].acoustic_cost)));
    }
    if (!finals.empty())
        to->SetStart(0);
    return !finals.empty();
}

} // namespace detail

// Not in Kaldi: fills a lattice of Kaldi's from one of Koshi's, raw or compact as it is. Acoustic costs are
// those without acoustic scale. False if it has no path.
inline bool FillLattice(const lattice &from, Lattice *to)
{
    return detail::fill(
        from, to,
        [](std::size_t, const koshi_lattice_arc &arc) {
            const LatticeWeight weight(arc.graph_cost, arc.acoustic_cost);
            return LatticeArc(arc.ilabel, arc.olabel, weight, int(arc.next));
        },
        [](std::size_t, const LatticeWeight &costs) { return costs; });
}

inline bool FillLattice(const lattice &from, CompactLattice *to)
{
    return detail::fill(
        from, to,
        [&from](std::size_t at, const koshi_lattice_arc &arc) {
            const LatticeWeight costs(arc.graph_cost, arc.acoustic_cost);
            const CompactLatticeWeight weight(costs, from.string(at).to_vector());
            return CompactLatticeArc(arc.olabel, arc.olabel, weight, int(arc.next));
        },
        [&from](std::size_t state, const LatticeWeight &costs) {
            return CompactLatticeWeight(costs, from.final_string(state).to_vector());
        });
}

// Not in Kaldi: a decodable of Kaldi's as one that koshi_channel_advance pulls from. Index i is column
// i - 1, as in a graph that was made without a model.
class DecodableAdapter {
public:
    // `source` is borrowed. With `ask_ready` false its NumFramesReady is not called, which those that block
    // in IsLastFrame do not have: all frames count as ready, and the caller says how many to pull.
    explicit DecodableAdapter(DecodableInterface *source, bool ask_ready = true)
        : source_(source), ask_ready_(ask_ready)
    {
        koshi_decodable_ops ops{};
        ops.struct_size = sizeof ops;
        ops.log_likelihood = [](void *self, std::int64_t frame, std::int32_t column, float *out) {
            return guarded(self, koshi_status(KOSHI_E_CALLBACK), [&](DecodableAdapter &adapter) {
                *out = adapter.source_->LogLikelihood(int32(frame), column + 1);
                return koshi_status(KOSHI_OK);
            });
        };
        ops.num_frames_ready = [](void *self) {
            return guarded(self, std::int64_t(KOSHI_E_CALLBACK), [](DecodableAdapter &adapter) {
                return adapter.ask_ready_ ? std::int64_t(adapter.source_->NumFramesReady())
                                          : std::numeric_limits<std::int64_t>::max();
            });
        };
        ops.is_last_frame = [](void *self, std::int64_t frame) {
            return guarded(self, std::int32_t(KOSHI_E_CALLBACK), [&](DecodableAdapter &adapter) {
                return std::int32_t(adapter.source_->IsLastFrame(int32(frame)));
            });
        };
        ops.num_indices = [](void *self) {
            return guarded(self, std::int32_t(KOSHI_E_CALLBACK),
                           [](DecodableAdapter &adapter) { return std::int32_t(adapter.source_->NumIndices()); });
        };
        call(koshi_decodable_new, static_cast<const koshi_decodable_ops *>(&ops), static_cast<void *>(this),
             koshi_drop_fn(nullptr), handle_.out());
    }
    DecodableAdapter(const DecodableAdapter &) = delete;
    DecodableAdapter &operator=(const DecodableAdapter &) = delete;

    koshi_decodable *get() const noexcept { return handle_.get(); }

    // Throws what the source has thrown since the last call, if it did.
    void Rethrow()
    {
        if (thrown_)
            std::rethrow_exception(std::exchange(thrown_, nullptr));
    }

private:
    // No exception may pass through the library: it is kept, and thrown on by Rethrow.
    template <class T, class Body>
    static T guarded(void *self, T failed, Body body) noexcept
    {
        auto *adapter = static_cast<DecodableAdapter *>(self);
        try {
            return body(*adapter);
        } catch (...) {
            adapter->thrown_ = std::current_exception();
            return failed;
        }
    }

    DecodableInterface *source_;
    bool ask_ready_;
    std::exception_ptr thrown_;
    handle<koshi_decodable> handle_;
};

struct LatticeFasterDecoderConfig {
    BaseFloat beam = 16.0;
    int32 max_active = std::numeric_limits<int32>::max();
    int32 min_active = 200;
    BaseFloat lattice_beam = 10.0;
    // Read, checked and not used: results do not depend on when tokens are pruned, nor on a hash.
    int32 prune_interval = 25;
    // Not looked at here, as in Kaldi: for the program.
    bool determinize_lattice = true;
    BaseFloat beam_delta = 0.5;
    // As prune_interval.
    BaseFloat hash_ratio = 2.0;
    BaseFloat prune_scale = 0.1f;
    // GetLattice looks at max_mem; all of it is for the program's own determinization.
    ::fst::DeterminizeLatticePhonePrunedOptions det_opts;
    // Not in Kaldi.
    Place place;

    void Register(OptionsItf *opts)
    {
        det_opts.Register(opts);
        opts->Register("beam", &beam, "Beam of the search, as a cost.");
        opts->Register("max-active", &max_active, "About how many states may emit in a frame.");
        opts->Register("min-active", &min_active, "While no more states than this are there, all of them emit.");
        opts->Register("lattice-beam", &lattice_beam, "Beam of the lattice, as a cost.");
        opts->Register("prune-interval", &prune_interval, "Not used: results do not depend on it.");
        opts->Register("determinize-lattice", &determinize_lattice,
                       "If true, the lattice is determinized: of each word sequence the best alignment is kept.");
        opts->Register("beam-delta", &beam_delta,
                       "What is added to the beam of the next frame where max-active or min-active sets it.");
        opts->Register("hash-ratio", &hash_ratio, "Not used: results do not depend on it.");
    }
    // Throws what Kaldi asserts.
    void Check() const
    {
        if (!(beam > 0.0 && max_active > 1 && lattice_beam > 0.0 && prune_interval > 0 && beam_delta > 0.0 &&
              hash_ratio >= 1.0 && prune_scale > 0.0 && prune_scale < 1.0))
            throw error(KOSHI_E_CONFIG, "an option of the decoder is out of its range");
    }
};

namespace detail {

inline koshi_decoder_config decoder_config(const Place &place, BaseFloat beam, BaseFloat lattice_beam, int32 max_active,
                                           int32 min_active)
{
    koshi_decoder_config config = decoder::defaults();
    config.backend = place.backend;
    config.device = std::uint32_t(place.device);
    config.beam = beam;
    config.lattice_beam = lattice_beam;
    config.max_active = std::uint32_t(std::max(max_active, 0));
    // Kaldi looks at max_active first, so that a larger min_active has no effect.
    config.min_active = std::uint32_t(std::max(std::min(min_active, max_active), 0));
    return config;
}

} // namespace detail

// Kaldi's LatticeFasterDecoder, the one over fst::StdFst.
class LatticeFasterDecoder {
public:
    using Arc = ::fst::StdArc;
    using Label = Arc::Label;
    using StateId = Arc::StateId;
    using Weight = Arc::Weight;

    // `fst` is not needed afterwards. Its graph is made the first time, and found again for the next decoder
    // over the same VectorFst or ConstFst, unless that one was changed or many others came between.
    LatticeFasterDecoder(const StdFst &fst, const LatticeFasterDecoderConfig &config) : config_(config)
    {
        config.Check();
        kept_ = detail::graph_of(fst);
        graph_ = kept_->made.share();
        Remake();
    }
    // Deletes `fst` in the end, and if it throws.
    LatticeFasterDecoder(const LatticeFasterDecoderConfig &config, StdFst *fst)
        : LatticeFasterDecoder(std::unique_ptr<StdFst>(fst), config)
    {
    }
    // Not in Kaldi: over a graph that was read by koshi::graph, from a file or a cache.
    LatticeFasterDecoder(const graph &graph, const LatticeFasterDecoderConfig &config)
        : config_(config), graph_(graph.share())
    {
        config.Check();
        Remake();
    }
    LatticeFasterDecoder(const LatticeFasterDecoder &) = delete;
    LatticeFasterDecoder &operator=(const LatticeFasterDecoder &) = delete;

    // Holds from the next utterance on.
    void SetOptions(const LatticeFasterDecoderConfig &config)
    {
        config_ = config;
        changed_ = true;
    }
    const LatticeFasterDecoderConfig &GetOptions() const { return config_; }

    // Decodes all frames, up to the one of which IsLastFrame is true. False if no token is left.
    bool Decode(DecodableInterface *decodable)
    {
        InitDecoding();
        DecodableAdapter adapter(decodable, false);
        while (!decodable->IsLastFrame(NumFramesDecoded() - 1))
            Advance(adapter, 1);
        FinalizeDecoding();
        return !lost_;
    }

    // False too where nothing has begun: the cost is NaN then.
    bool ReachedFinal() const { return FinalRelativeCost() < std::numeric_limits<BaseFloat>::infinity(); }

    // The best path as a lattice from state 0 on. False, with no states, if there is none.
    bool GetBestPath(Lattice *ofst, bool use_final_probs = true) const
    {
        if (lost_)
            return Nothing(ofst);
        return FillLattice(channel_.best_path_lattice(use_final_probs), ofst);
    }

    // All that is within the lattice beam, start state 0, topologically sorted. Other than in Kaldi it is
    // pruned exactly at any time, and final costs may be left out after FinalizeDecoding too.
    bool GetRawLattice(Lattice *ofst, bool use_final_probs = true) const
    {
        if (lost_)
            return Nothing(ofst);
        return FillLattice(channel_.lattice(use_final_probs), ofst);
    }

    // Determinized on words, without a pass on phones, within the lattice beam.
    bool GetLattice(CompactLattice *ofst, bool use_final_probs = true) const
    {
        if (lost_)
            return Nothing(ofst);
        koshi_determinize_config options = lattice::determinize_defaults();
        options.beam = config_.lattice_beam;
        options.phone_determinize = 0;
        options.max_mem = std::uint64_t(std::max(det_opts().max_mem, 0));
        return FillLattice(channel_.lattice(use_final_probs).determinize(nullptr, options).lattice, ofst);
    }

    void InitDecoding()
    {
        if (changed_)
            Remake();
        channel_.begin();
        lost_ = false;
        lost_frames_ = 0;
    }

    // Decodes the frames that are ready now, at most `max_num_frames` of them unless that is negative.
    void AdvanceDecoding(DecodableInterface *decodable, int32 max_num_frames = -1)
    {
        const int32 ready = decodable->NumFramesReady() - NumFramesDecoded();
        if (ready < 0)
            throw error(KOSHI_E_ARGUMENT, "the decodable has fewer frames than were decoded");
        DecodableAdapter adapter(decodable, false);
        Advance(adapter, max_num_frames < 0 ? ready : std::min(ready, max_num_frames));
    }

    void FinalizeDecoding() { channel_.finish(); }

    BaseFloat FinalRelativeCost() const
    {
        return lost_ ? std::numeric_limits<BaseFloat>::infinity() : channel_.final_relative_cost();
    }

    // Where no token is left, the frames behind count too, as in Kaldi.
    int32 NumFramesDecoded() const { return int32(channel_.num_frames()) + lost_frames_; }

protected:
    LatticeFasterDecoderConfig config_;
    // Lattices are asked for by const members, and the library works on the channel for them.
    mutable channel channel_;
    // No token survived a frame.
    bool lost_ = false;

    template <class Fst>
    static bool Nothing(Fst *ofst)
    {
        ofst->DeleteStates();
        return false;
    }

private:
    LatticeFasterDecoder(std::unique_ptr<StdFst> fst, const LatticeFasterDecoderConfig &config)
        : LatticeFasterDecoder(*fst, config)
    {
        owned_ = std::move(fst);
    }

    const ::fst::DeterminizeLatticePhonePrunedOptions &det_opts() const { return config_.det_opts; }

    void Remake()
    {
        koshi_decoder_config config = detail::decoder_config(config_.place, config_.beam, config_.lattice_beam,
                                                             config_.max_active, config_.min_active);
        config.beam_delta = config_.beam_delta;
        config.num_lanes = config.num_threads = 1;
        channel_.reset();
        decoder_ = decoder(graph_, config);
        channel_ = channel(decoder_);
        changed_ = false;
    }

    void Advance(DecodableAdapter &adapter, int32 frames)
    {
        const int32 behind = NumFramesDecoded() + frames;
        if (!lost_) {
            const auto status = try_call(koshi_channel_advance, channel_.get(), adapter.get(), std::int64_t(frames),
                                         static_cast<std::uint64_t *>(nullptr));
            if (!status) {
                adapter.Rethrow();
                lost_ = status.status() == KOSHI_E_NO_TOKENS;
                if (!lost_)
                    throw status.failure();
            }
        }
        if (lost_)
            lost_frames_ += behind - NumFramesDecoded();
    }

    std::unique_ptr<StdFst> owned_;
    std::shared_ptr<const detail::kept_graph> kept_;
    graph graph_;
    decoder decoder_;
    bool changed_ = false;
    int32 lost_frames_ = 0;
};

// Kaldi's LatticeFasterOnlineDecoder, the one over fst::StdFst.
class LatticeFasterOnlineDecoder : public LatticeFasterDecoder {
public:
    using LatticeFasterDecoder::LatticeFasterDecoder;

    // A place on the best path that BestPathEnd found last; the next call of that ends it.
    struct BestPathIterator {
        void *tok;
        int32 frame;
        BestPathIterator(void *t, int32 f) : tok(t), frame(f) {}
        bool Done() { return tok == nullptr; }
    };

    // Always true: GetBestPath is the path by which lattices are pruned.
    bool TestGetBestPath(bool = true) const { return true; }

    BestPathIterator BestPathEnd(bool use_final_probs, BaseFloat *final_cost = nullptr) const
    {
        const lattice best = lost_ ? lattice() : channel_.best_path_lattice(use_final_probs);
        path_.clear();
        if (final_cost != nullptr)
            *final_cost = 0;
        if (best.final_costs().empty())
            return BestPathIterator(nullptr, -1);
        // In front of all: what the start is reached by.
        path_.push_back(koshi_lattice_arc{});
        path_.insert(path_.end(), best.arcs().begin(), best.arcs().end());
        if (final_cost != nullptr)
            *final_cost = best.final_costs()[best.final_costs().size() - 1].graph_cost;
        return BestPathIterator(&path_.back(), NumFramesDecoded() - 1);
    }

    // Goes one link back, and puts labels and weight into *arc. The last link leads to the start and has
    // neither.
    BestPathIterator TraceBackBestPath(BestPathIterator iter, LatticeArc *arc) const
    {
        if (iter.Done())
            throw error(KOSHI_E_ARGUMENT, "the best path has no link before its start");
        const auto *link = static_cast<const koshi_lattice_arc *>(iter.tok);
        arc->ilabel = link->ilabel;
        arc->olabel = link->olabel;
        arc->weight = LatticeWeight(link->graph_cost, link->acoustic_cost);
        void *before = link == path_.data() ? nullptr : const_cast<koshi_lattice_arc *>(link - 1);
        return BestPathIterator(before, link->ilabel != 0 ? iter.frame - 1 : iter.frame);
    }

    bool GetRawLatticePruned(Lattice *ofst, bool use_final_probs, BaseFloat beam) const
    {
        if (lost_)
            return Nothing(ofst);
        return FillLattice(channel_.lattice(use_final_probs).prune(beam, 1), ofst);
    }

private:
    mutable std::vector<koshi_lattice_arc> path_;
};

struct OnlineEndpointRule {
    bool must_contain_nonsilence;
    BaseFloat min_trailing_silence;
    BaseFloat max_relative_cost;
    BaseFloat min_utterance_length;

    OnlineEndpointRule(bool must_contain_nonsilence = true, BaseFloat min_trailing_silence = 1.0,
                       BaseFloat max_relative_cost = std::numeric_limits<BaseFloat>::infinity(),
                       BaseFloat min_utterance_length = 0.0)
        : must_contain_nonsilence(must_contain_nonsilence), min_trailing_silence(min_trailing_silence),
          max_relative_cost(max_relative_cost), min_utterance_length(min_utterance_length)
    {
    }

    void Register(OptionsItf *opts) { RegisterWithPrefix("", opts); }
    void RegisterWithPrefix(const std::string &prefix, OptionsItf *opts)
    {
        const std::string front = prefix.empty() ? prefix : prefix + ".";
        opts->Register(front + "must-contain-nonsilence", &must_contain_nonsilence,
                       "If true, the best path must hold speech for this rule to end the utterance.");
        opts->Register(front + "min-trailing-silence", &min_trailing_silence,
                       "Least silence at the end of the best path, in seconds.");
        opts->Register(front + "max-relative-cost", &max_relative_cost,
                       "Most cost of the best final state above the best state.");
        opts->Register(front + "min-utterance-length", &min_utterance_length,
                       "Least length of the utterance, in seconds.");
    }
};

struct OnlineEndpointConfig {
    // Phones with colons between them.
    std::string silence_phones;
    OnlineEndpointRule rule1{false, 5.0, std::numeric_limits<BaseFloat>::infinity(), 0.0};
    OnlineEndpointRule rule2{true, 0.5, 2.0, 0.0};
    OnlineEndpointRule rule3{true, 1.0, 8.0, 0.0};
    OnlineEndpointRule rule4{true, 2.0, std::numeric_limits<BaseFloat>::infinity(), 0.0};
    OnlineEndpointRule rule5{false, 0.0, std::numeric_limits<BaseFloat>::infinity(), 20.0};

    void Register(OptionsItf *opts)
    {
        opts->Register("endpoint.silence-phones", &silence_phones, "Phones that are silence, as 1:2:3.");
        rule1.RegisterWithPrefix("endpoint.rule1", opts);
        rule2.RegisterWithPrefix("endpoint.rule2", opts);
        rule3.RegisterWithPrefix("endpoint.rule3", opts);
        rule4.RegisterWithPrefix("endpoint.rule4", opts);
        rule5.RegisterWithPrefix("endpoint.rule5", opts);
    }
};

namespace detail {

// Numbers with colons between them, ascending.
inline std::vector<std::int32_t> phones_of(const std::string &list)
{
    std::vector<std::int32_t> phones;
    const char *at = list.c_str(), *const end = at + list.size();
    while (at != end) {
        char *behind = nullptr;
        const long phone = std::strtol(at, &behind, 10);
        if (behind == at || phone < 1 || phone > std::numeric_limits<std::int32_t>::max() ||
            (behind != end && *behind != ':'))
            throw error(KOSHI_E_CONFIG, "silence phones: not numbers with colons between them: " + list);
        phones.push_back(std::int32_t(phone));
        at = behind == end ? end : behind + 1;
    }
    std::sort(phones.begin(), phones.end());
    return phones;
}

} // namespace detail

// Whether a rule ends an utterance of so many frames, the last of them silence, with that relative cost.
inline bool EndpointDetected(const OnlineEndpointConfig &config, int32 num_frames_decoded,
                             int32 trailing_silence_frames, BaseFloat frame_shift_in_seconds,
                             BaseFloat final_relative_cost)
{
    const BaseFloat length = BaseFloat(num_frames_decoded) * frame_shift_in_seconds;
    const BaseFloat silence = BaseFloat(trailing_silence_frames) * frame_shift_in_seconds;
    for (const OnlineEndpointRule *rule :
         {&config.rule1, &config.rule2, &config.rule3, &config.rule4, &config.rule5}) {
        if ((!rule->must_contain_nonsilence || length > silence) && silence >= rule->min_trailing_silence &&
            final_relative_cost <= rule->max_relative_cost && length >= rule->min_utterance_length)
            return true;
    }
    return false;
}

// Frames at the end of the best path, without final costs, whose phone is one of `silence_phones`. `Model`
// is kaldi::TransitionModel, or what else has TransitionIdToPhone.
template <class Model>
int32 TrailingSilenceLength(const Model &tmodel, const std::string &silence_phones,
                            const LatticeFasterOnlineDecoder &decoder)
{
    const std::vector<std::int32_t> silence = detail::phones_of(silence_phones);
    int32 frames = 0;
    LatticeArc arc;
    for (auto iter = decoder.BestPathEnd(false); !iter.Done();) {
        iter = decoder.TraceBackBestPath(iter, &arc);
        if (arc.ilabel == 0)
            continue;
        if (!std::binary_search(silence.begin(), silence.end(), tmodel.TransitionIdToPhone(arc.ilabel)))
            break;
        ++frames;
    }
    return frames;
}

template <class Model>
bool EndpointDetected(const OnlineEndpointConfig &config, const Model &tmodel, BaseFloat frame_shift_in_seconds,
                      const LatticeFasterOnlineDecoder &decoder)
{
    if (decoder.NumFramesDecoded() == 0)
        return false;
    return EndpointDetected(config, decoder.NumFramesDecoded(),
                            TrailingSilenceLength(tmodel, config.silence_phones, decoder), frame_shift_in_seconds,
                            decoder.FinalRelativeCost());
}

// As in Kaldi's src/cudadecoder.
namespace cuda_decoder {

using ChannelId = int32;

struct PartialHypothesis {
    std::string out_str;

    void clear() { out_str.clear(); }
};

struct CudaDecoderConfig {
    BaseFloat default_beam = 15.0;
    BaseFloat lattice_beam = 10.0;
    // These three are read and not used: memory grows as it is needed, and what a GPU holds for a frame
    // follows from max_active.
    int32 ntokens_pre_allocated = 1000000;
    int32 main_q_capacity = -1, aux_q_capacity = -1;
    int32 max_active = 10000;
    OnlineEndpointConfig endpointing_config;
    // Not in Kaldi. On the CPU rows are in the memory of the host.
    Place place{KOSHI_BACKEND_CUDA, 0};
    // Not in Kaldi: where rows are, with the GPU. A koshi_memory.
    int32 memory = KOSHI_MEMORY_DEVICE;

    void Register(OptionsItf *opts)
    {
        opts->Register("beam", &default_beam, "Beam of the search, as a cost.");
        opts->Register("lattice-beam", &lattice_beam, "Beam of the lattice, as a cost.");
        opts->Register("max-active", &max_active, "About how many states may emit in a frame.");
        opts->Register("ntokens-pre-allocated", &ntokens_pre_allocated, "Not used: memory grows as it is needed.");
        opts->Register("main-q-capacity", &main_q_capacity, "Not used: follows from max-active.");
        opts->Register("aux-q-capacity", &aux_q_capacity, "Not used: follows from max-active.");
        endpointing_config.Register(opts);
    }
    // Throws what Kaldi asserts.
    void Check() const
    {
        if (!(default_beam > 0.0 && ntokens_pre_allocated >= 0 && lattice_beam >= 0.0f && max_active > 0))
            throw error(KOSHI_E_CONFIG, "an option of the decoder is out of its range");
    }
    void ComputeConfig()
    {
        if (main_q_capacity == -1)
            main_q_capacity = max_active * 4;
        if (aux_q_capacity == -1)
            aux_q_capacity = main_q_capacity * 3;
    }
};

// A graph for CudaDecoder.
class CudaFst {
public:
    using Arc = ::fst::StdArc;
    using Weight = Arc::Weight;
    using Label = Arc::Label;
    using StateId = Arc::StateId;

    CudaFst() = default;
    // Label i reads column i - 1.
    explicit CudaFst(const StdFst &fst, std::nullptr_t = nullptr) { Initialize(fst); }
    // Labels are transition-ids and read the columns of their pdfs. `Model` is kaldi::TransitionModel,
    // kaldi::TransitionInformation, or what else has NumTransitionIds, TransitionIdToPdf and TransitionIdToPhone.
    template <class Model>
    CudaFst(const StdFst &fst, const Model *trans_model)
    {
        Initialize(fst, trans_model);
    }
    // Not in Kaldi: a graph that was read by koshi::graph, from a file or a cache.
    explicit CudaFst(const graph &graph)
        : graph_(graph.share()), num_states_(graph.info().num_states), start_(::fst::kNoStateId)
    {
    }
    CudaFst(const CudaFst &) = delete;
    CudaFst &operator=(const CudaFst &) = delete;

    // Kaldi's way before 2021.
    void Initialize(const StdFst &fst, std::nullptr_t = nullptr)
    {
        using bytes = span<const std::uint8_t>;
        Take(fst, kaldi::detail::graph_from(fst, [](bytes bytes) { return graph::from_memory(bytes); }));
    }
    template <class Model>
    void Initialize(const StdFst &fst, const Model *trans_model)
    {
        if (trans_model == nullptr)
            return Initialize(fst);
        const std::vector<std::int32_t> columns = PdfColumns(*trans_model);
        using bytes = span<const std::uint8_t>;
        Take(fst, kaldi::detail::graph_from(
                      fst, [&](bytes bytes) { return graph::from_memory_mapped(bytes, columns); }));
        for (int32 id = 0; id <= trans_model->NumTransitionIds(); ++id)
            phones_.push_back(id > 0 ? trans_model->TransitionIdToPhone(id) : 0);
    }
    void Finalize()
    {
        graph_.reset();
        phones_.clear();
        num_states_ = 0;
        start_ = ::fst::kNoStateId;
    }

    std::uint32_t NumStates() const { return num_states_; }
    StateId Start() const { return start_; }

private:
    friend class CudaDecoder;

    void Take(const StdFst &fst, graph made)
    {
        num_states_ = made.info().num_states;
        start_ = fst.Start();
        graph_ = std::move(made);
        phones_.clear();
    }

    // Labels of these phones, or these labels where labels have no phones.
    std::vector<std::int32_t> LabelsOf(const std::vector<std::int32_t> &phones) const
    {
        if (phones_.empty())
            return phones;
        std::vector<std::int32_t> labels;
        for (std::size_t id = 1; id < phones_.size(); ++id) {
            if (std::binary_search(phones.begin(), phones.end(), phones_[id]))
                labels.push_back(std::int32_t(id));
        }
        return labels;
    }

    graph graph_;
    // By transition-id.
    std::vector<std::int32_t> phones_;
    std::uint32_t num_states_ = 0;
    StateId start_ = ::fst::kNoStateId;
};

// Kaldi's CudaDecoder, for host or device memory, and on the CPU too.
class CudaDecoder {
public:
    CudaDecoder(const CudaFst &fst, const CudaDecoderConfig &config, int32 nlanes, int32 nchannels)
        : fst_(&fst), nlanes_(nlanes), channels_(std::size_t(std::max(nchannels, 0)))
    {
        if (nlanes < 1 || nchannels < nlanes)
            throw error(KOSHI_E_CONFIG, "a decoder has at least one lane, and as many channels as lanes");
        ReadConfig(config);
    }
    CudaDecoder(const CudaFst &fst, const CudaDecoderConfig &config, int32 nchannels)
        : CudaDecoder(fst, config, nchannels, nchannels)
    {
    }
    CudaDecoder(const CudaDecoder &) = delete;
    CudaDecoder &operator=(const CudaDecoder &) = delete;
    virtual ~CudaDecoder() = default;

    // Forgets all utterances.
    void ReadConfig(const CudaDecoderConfig &config)
    {
        config.Check();
        config_ = config;
        koshi_decoder_config made = kaldi::detail::decoder_config(config.place, config.default_beam,
                                                                  config.lattice_beam, config.max_active, 0);
        made.num_lanes = std::uint32_t(nlanes_);
        // Rules are given in frames: the length of one may be told later.
        made.frame_shift = 1;
        for (Utterance &each : channels_)
            each = Utterance();
        decoder_ = decoder(fst_->graph_, made);
        for (Utterance &each : channels_)
            each.channel = channel(decoder_);
        const koshi_decoder_summary info = decoder_.info();
        columns_ = info.num_columns;
        on_device_ = info.backend == KOSHI_BACKEND_CUDA && config.memory == KOSHI_MEMORY_DEVICE;
        if (endpointing_)
            AllowEndpointing();
    }

    void InitDecoding(const std::vector<ChannelId> &channels)
    {
        for (ChannelId each : channels) {
            Utterance &utterance = Of(each);
            utterance.channel.begin();
            utterance.lost = false;
            utterance.lost_frames = 0;
            utterance.partial.clear();
        }
    }

    // A frame for each of these channels; each row has a column for each pdf. On the CPU, and with the GPU
    // where config.memory is KOSHI_MEMORY_HOST, in one batch.
    void AdvanceDecoding(const std::vector<std::pair<ChannelId, const BaseFloat *>> &lanes_assignements)
    {
        Advance(lanes_assignements);
    }
    // Kaldi's way before 2020.
    template <class Pointer, class = std::enable_if_t<std::is_same<Pointer, BaseFloat *>::value>>
    void AdvanceDecoding(const std::vector<std::pair<ChannelId, Pointer>> &lanes_assignements)
    {
        Advance(lanes_assignements);
    }

    // As many frames as all of them have ready, at most `max_num_frames` unless that is negative. `Decodable` is
    // kaldi::CudaDecodableInterface, or what else has NumFramesReady and GetLogLikelihoodsCudaPointer.
    template <class Decodable>
    void AdvanceDecoding(const std::vector<ChannelId> &channels, std::vector<Decodable *> &decodables,
                         int32 max_num_frames = -1)
    {
        int32 frames = max_num_frames < 0 || channels.empty() ? std::numeric_limits<int32>::max() : max_num_frames;
        for (std::size_t at = 0; at < channels.size(); ++at)
            frames = std::min(frames, decodables.at(at)->NumFramesReady() - NumFramesDecoded(channels[at]));
        if (channels.empty())
            return;
        if (frames < 0)
            throw error(KOSHI_E_ARGUMENT, "a decodable has fewer frames than were decoded");
        std::vector<std::pair<ChannelId, const BaseFloat *>> rows(channels.size());
        for (int32 frame = 0; frame < frames; ++frame) {
            for (std::size_t at = 0; at < channels.size(); ++at)
                rows[at] = {channels[at],
                            decodables[at]->GetLogLikelihoodsCudaPointer(NumFramesDecoded(channels[at]))};
            Advance(rows);
        }
    }

    void AllowPartialHypotheses() { partials_ = true; }

    // Holds from the next InitDecoding on, as SetOutputFrameShiftInSeconds, which comes first.
    void AllowEndpointing()
    {
        if (!(frame_shift_ > 0))
            throw error(KOSHI_E_STATE, "SetOutputFrameShiftInSeconds comes before AllowEndpointing");
        koshi_endpoint_config config = decoder::endpoint_defaults();
        config.silence = KOSHI_SILENCE_ILABELS;
        const OnlineEndpointConfig &asked = config_.endpointing_config;
        const OnlineEndpointRule *rules[] = {&asked.rule1, &asked.rule2, &asked.rule3, &asked.rule4, &asked.rule5};
        for (std::size_t at = 0; at < 5; ++at) {
            config.rules[at].must_contain_nonsilence = rules[at]->must_contain_nonsilence;
            config.rules[at].max_relative_cost = rules[at]->max_relative_cost;
            config.rules[at].min_trailing_silence = double(rules[at]->min_trailing_silence) / frame_shift_;
            config.rules[at].min_utterance_length = double(rules[at]->min_utterance_length) / frame_shift_;
        }
        decoder_.set_endpoint_rules(config, fst_->LabelsOf(kaldi::detail::phones_of(asked.silence_phones)));
        endpointing_ = true;
    }

    void SetOutputFrameShiftInSeconds(BaseFloat f) { frame_shift_ = f; }

    // The words of the best path now, with spaces between them. Valid until the next call for that channel.
    void GetPartialHypothesis(ChannelId ichannel, PartialHypothesis **out)
    {
        if (!partials_)
            throw error(KOSHI_E_STATE, "AllowPartialHypotheses was not called");
        Utterance &utterance = Of(ichannel);
        utterance.partial.clear();
        std::string &text = utterance.partial.out_str;
        const path now = utterance.lost ? path() : std::move(utterance.channel.partial().path);
        for (std::int32_t word : now.olabels()) {
            if (!text.empty())
                text += ' ';
            text += word_syms_ != nullptr ? word_syms_->Find(word) : std::to_string(word);
        }
        *out = &utterance.partial;
    }

    // Whether an end point was found since InitDecoding.
    bool EndpointDetected(ChannelId ichannel) { return Of(ichannel).channel.endpoint().rule != 0; }

    int32 NumFramesDecoded(ChannelId ichannel) const
    {
        const Utterance &utterance = Of(ichannel);
        return int32(utterance.channel.num_frames()) + utterance.lost_frames;
    }

    void GetBestPath(const std::vector<ChannelId> &channels, std::vector<Lattice *> &fst_out_vec,
                     bool use_final_probs = true)
    {
        for (std::size_t at = 0; at < channels.size(); ++at) {
            Utterance &utterance = Of(channels[at]);
            FillLattice(utterance.lost ? lattice() : utterance.channel.best_path_lattice(use_final_probs),
                        fst_out_vec.at(at));
        }
    }

    void GetRawLattice(const std::vector<ChannelId> &channels, std::vector<Lattice *> &fst_out_vec,
                       bool use_final_probs)
    {
        PrepareForGetRawLattice(channels, use_final_probs);
        for (std::size_t at = 0; at < channels.size(); ++at)
            ConcurrentGetRawLatticeSingleChannel(channels[at], fst_out_vec.at(at));
    }

    void PrepareForGetRawLattice(const std::vector<ChannelId> &channels, bool use_final_probs)
    {
        for (ChannelId each : channels) {
            Utterance &utterance = Of(each);
            utterance.prepared = utterance.lost ? lattice() : utterance.channel.lattice(use_final_probs);
        }
    }
    // May run for several channels together, and while others are advanced.
    void ConcurrentGetRawLatticeSingleChannel(ChannelId ichannel, Lattice *fst_out)
    {
        FillLattice(std::exchange(Of(ichannel).prepared, lattice()), fst_out);
    }

    // Koshi has threads of its own.
    template <class Pool>
    void SetThreadPoolAndStartCPUWorkers(Pool *, int32)
    {
    }

    void SetSymbolTable(const ::fst::SymbolTable &word_syms) { word_syms_ = &word_syms; }

private:
    struct Utterance {
        koshi::channel channel;
        lattice prepared;
        PartialHypothesis partial;
        // No token survived a frame; those behind count too, as in Kaldi.
        bool lost = false;
        int32 lost_frames = 0;
    };

    Utterance &Of(ChannelId channel)
    {
        return const_cast<Utterance &>(static_cast<const CudaDecoder *>(this)->Of(channel));
    }
    const Utterance &Of(ChannelId channel) const
    {
        if (channel < 0 || std::size_t(channel) >= channels_.size())
            throw error(KOSHI_E_ARGUMENT, "there is no channel " + std::to_string(channel));
        return channels_[std::size_t(channel)];
    }

    template <class Rows>
    void Advance(const Rows &rows)
    {
        items_.clear();
        for (const auto &[at, row] : rows) {
            Utterance &utterance = Of(at);
            if (utterance.lost) {
                ++utterance.lost_frames;
                continue;
            }
            koshi_decoder_item item{};
            item.channel = utterance.channel.get();
            item.rows = row;
            item.frames = 1;
            item.dim = item.stride = columns_;
            items_.push_back(item);
        }
        if (!on_device_ && !items_.empty())
            decoder_.advance({items_.data(), items_.size()});
        // A failure of one channel keeps none of the others from its frame.
        std::exception_ptr failure;
        for (const koshi_decoder_item &item : items_) {
            try {
                Conclude(item);
            } catch (const error &) {
                if (!failure)
                    failure = std::current_exception();
            }
        }
        if (failure)
            std::rethrow_exception(failure);
    }

    // Searches the row if it is on the device; else it has been searched, and only a failure is asked for once
    // more, for its message.
    void Conclude(const koshi_decoder_item &item)
    {
        if (!on_device_ && item.status >= 0)
            return;
        const auto found = on_device_
                               ? try_call(koshi_channel_push_device, item.channel,
                                          std::uint64_t(reinterpret_cast<std::uintptr_t>(item.rows)), item.frames,
                                          item.dim, item.stride, static_cast<void *>(nullptr))
                               : try_call(koshi_channel_push, item.channel, item.rows, item.frames, item.dim,
                                          item.stride);
        if (found.status() == KOSHI_E_NO_TOKENS) {
            for (Utterance &each : channels_) {
                if (each.channel.get() == item.channel) {
                    each.lost = true;
                    ++each.lost_frames;
                }
            }
        } else if (!found) {
            throw found.failure();
        }
    }

    const CudaFst *fst_;
    int32 nlanes_;
    CudaDecoderConfig config_;
    decoder decoder_;
    std::vector<Utterance> channels_;
    std::vector<koshi_decoder_item> items_;
    std::size_t columns_ = 0;
    bool on_device_ = false, partials_ = false, endpointing_ = false;
    BaseFloat frame_shift_ = 0;
    const ::fst::SymbolTable *word_syms_ = nullptr;
};

} // namespace cuda_decoder
} // namespace kaldi
} // namespace koshi

#endif // KOSHI_KALDI_HPP

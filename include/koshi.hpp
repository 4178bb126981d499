// Koshi for C++17: handles that free themselves, exceptions, and containers instead of lengths.
//
//     const koshi::transitions model = koshi::transitions::read("final.mdl");
//     const koshi::graph graph = koshi::graph::read("HCLG.fst", &model);
//     koshi_decoder_config options = koshi::decoder::defaults();
//     options.acoustic_scale = 1 / 12.f;
//     const koshi::decoder decoder(graph, options);
//     koshi::channel channel(decoder);
//     channel.begin();
//     channel.push({scores, frames, columns});
//     channel.finish();
//     std::cout << channel.best_path(true).text() << '\n';
//
// Every function that can fail comes twice: `read` throws koshi::error, `try_read` answers a
// koshi::result and throws nothing but std::bad_alloc. What a function does, its units and its errors
// stand at the function of koshi.h that has its name: koshi::channel::push is koshi_channel_push.
//
// Classes own a handle and can be moved, not copied; `share` of a counted object gives one more owner.
// A moved-from object holds nothing and is answered like any wrong handle. Functions that have no member
// here are reached through koshi::call, and koshi::make where they make an object:
//
//     auto den = koshi::make<koshi::den_graph>(koshi_den_graph_read, "den.fst", std::size_t(3080));
//     koshi::call(koshi_channel_begin, channel.get());    // all arguments but the last, `err`
//
// This header is all there is to it: no library of its own, and nothing beyond the standard one.

#ifndef KOSHI_HPP
#define KOSHI_HPP

#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <iterator>
#include <memory>
#include <mutex>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include "koshi.h"

namespace koshi {

// Elements that lie side by side in memory of somebody else.
template <class T>
class span {
    // There for containers of T, or of what is T but for const.
    template <class Container>
    using elements_of = std::enable_if_t<
        !std::is_same_v<std::remove_const_t<Container>, span> &&
        std::is_convertible_v<std::remove_pointer_t<decltype(std::data(std::declval<Container &>()))> (*)[], T (*)[]>>;

public:
    constexpr span() noexcept = default;
    constexpr span(T *data, std::size_t size) noexcept : data_(data), size_(size) {}
    // All elements of a vector, an array, a std::span: of what has them side by side.
    template <class Container, class = elements_of<Container>>
    constexpr span(Container &all) noexcept : data_(std::data(all)), size_(std::size(all))
    {
    }
    template <class Container, class = elements_of<const Container>>
    constexpr span(const Container &all) noexcept : data_(std::data(all)), size_(std::size(all))
    {
    }

    constexpr T *data() const noexcept { return data_; }
    constexpr std::size_t size() const noexcept { return size_; }
    constexpr bool empty() const noexcept { return size_ == 0; }
    constexpr T *begin() const noexcept { return data_; }
    constexpr T *end() const noexcept { return data_ + size_; }
    constexpr T &operator[](std::size_t at) const noexcept { return data_[at]; }
    std::vector<std::remove_const_t<T>> to_vector() const { return {begin(), end()}; }

private:
    T *data_ = nullptr;
    std::size_t size_ = 0;
};

// The bytes of a text.
inline span<const std::uint8_t> bytes(std::string_view text) noexcept
{
    return {reinterpret_cast<const std::uint8_t *>(text.data()), text.size()};
}

// A call that failed: a status below zero, one line that says what is wrong, and what caused it.
class error : public std::runtime_error {
public:
    error(koshi_status status, const std::string &message, std::vector<std::string> causes = {})
        : std::runtime_error(message), status_(status), causes_(std::move(causes))
    {
    }

    koshi_status status() const noexcept { return status_; }
    // From the nearest cause to the first.
    const std::vector<std::string> &causes() const noexcept { return causes_; }

private:
    koshi_status status_;
    std::vector<std::string> causes_;
};

// What a call gave, or why it failed.
template <class T>
class [[nodiscard]] result {
public:
    result(T value) : state_(std::in_place_index<0>, std::move(value)) {}
    result(error failure) : state_(std::in_place_index<1>, std::move(failure)) {}

    bool ok() const noexcept { return state_.index() == 0; }
    explicit operator bool() const noexcept { return ok(); }

    // The value; throws the error if there is none.
    T &value() &
    {
        check();
        return *std::get_if<0>(&state_);
    }
    const T &value() const &
    {
        check();
        return *std::get_if<0>(&state_);
    }
    T &&value() &&
    {
        check();
        return std::move(*std::get_if<0>(&state_));
    }

    // Only where ok() is false.
    const error &failure() const { return std::get<1>(state_); }
    // KOSHI_OK, or that of the failure.
    koshi_status status() const noexcept { return ok() ? koshi_status(KOSHI_OK) : std::get_if<1>(&state_)->status(); }

private:
    void check() const
    {
        if (!ok())
            throw *std::get_if<1>(&state_);
    }

    std::variant<T, error> state_;
};

namespace detail {

// How each kind of object is freed, and how the counted ones are counted.
#define KOSHI_HPP_OWNED(type)                                                                                         \
    inline void free_handle(koshi_##type *handle) noexcept { koshi_##type##_free(handle); }
#define KOSHI_HPP_COUNTED(type)                                                                                       \
    KOSHI_HPP_OWNED(type)                                                                                             \
    inline koshi_##type *ref_handle(const koshi_##type *handle) noexcept { return koshi_##type##_ref(handle); }

KOSHI_HPP_COUNTED(align_lexicon)
KOSHI_HPP_COUNTED(buffer)
KOSHI_HPP_OWNED(channel)
KOSHI_HPP_OWNED(decodable)
KOSHI_HPP_OWNED(decoder)
KOSHI_HPP_COUNTED(degs)
KOSHI_HPP_COUNTED(den_graph)
KOSHI_HPP_OWNED(egs_reader)
KOSHI_HPP_OWNED(egs_table)
KOSHI_HPP_OWNED(egs_writer)
KOSHI_HPP_COUNTED(error)
KOSHI_HPP_OWNED(example)
KOSHI_HPP_OWNED(examples_repository)
KOSHI_HPP_COUNTED(graph)
KOSHI_HPP_COUNTED(hypotheses)
KOSHI_HPP_OWNED(int_writer)
KOSHI_HPP_COUNTED(language_model)
KOSHI_HPP_COUNTED(lattice)
KOSHI_HPP_OWNED(lattice_reader)
KOSHI_HPP_OWNED(lattice_writer)
KOSHI_HPP_COUNTED(matrix)
KOSHI_HPP_OWNED(matrix_reader)
KOSHI_HPP_COUNTED(path)
KOSHI_HPP_COUNTED(paths)
KOSHI_HPP_COUNTED(supervision)
KOSHI_HPP_COUNTED(symbols)
KOSHI_HPP_OWNED(transducer)
KOSHI_HPP_OWNED(transducer_stream)
KOSHI_HPP_COUNTED(transitions)
KOSHI_HPP_COUNTED(word_boundary)
KOSHI_HPP_COUNTED(words)

#undef KOSHI_HPP_COUNTED
#undef KOSHI_HPP_OWNED

} // namespace detail

// Owns one count of an object of the C interface.
template <class T>
class handle {
public:
    using type = T;

    handle() noexcept = default;
    // Takes over one count of `raw`.
    explicit handle(T *raw) noexcept : raw_(raw) {}
    handle(handle &&other) noexcept : raw_(other.release()) {}
    handle &operator=(handle &&other) noexcept
    {
        reset(other.release());
        return *this;
    }
    handle(const handle &) = delete;
    handle &operator=(const handle &) = delete;
    ~handle() { reset(); }

    T *get() const noexcept { return raw_; }
    explicit operator bool() const noexcept { return raw_ != nullptr; }
    // Gives the object up to the caller, who frees it.
    T *release() noexcept { return std::exchange(raw_, nullptr); }
    // Frees the object, and takes over another.
    void reset(T *raw = nullptr) noexcept
    {
        T *old = std::exchange(raw_, raw);
        if (old != nullptr && old != raw)
            detail::free_handle(old);
    }
    // Where a C function may write a new object.
    T **out() noexcept
    {
        reset();
        return &raw_;
    }

private:
    T *raw_ = nullptr;
};

namespace detail {

// The failure that `status` and `err` tell of; frees `err`.
inline error taken(koshi_status status, koshi_error *err)
{
    const handle<koshi_error> owner(err);
    std::vector<std::string> causes;
    for (const koshi_error *cause = koshi_error_cause(err); cause != nullptr; cause = koshi_error_cause(cause))
        causes.emplace_back(koshi_error_message(cause));
    const char *message = koshi_error_message(err);
    return error(status, message != nullptr ? message : koshi_status_name(status), std::move(causes));
}

// A class of this header as it is, and for a type of koshi.h its handle.
template <class T, class = void>
struct owner_of {
    using type = handle<T>;
};
template <class T>
struct owner_of<T, std::void_t<decltype(std::declval<T &>().out())>> {
    using type = T;
};

template <class T>
T *raw(const handle<T> *object) noexcept
{
    return object != nullptr ? object->get() : nullptr;
}

// An array of the library's, which lives as long as its object.
template <class T, class Object>
span<const T> array(const T *(*function)(const Object *, std::size_t *), const handle<Object> &object) noexcept
{
    std::size_t size = 0;
    const T *data = function(object.get(), &size);
    return {data, size};
}

} // namespace detail

// Calls a function of koshi.h with all its arguments but `err`; answers its status, KOSHI_OK or
// KOSHI_OK_PARTIAL.
template <class Function, class... Arguments>
result<koshi_status> try_call(Function function, Arguments... arguments)
{
    koshi_error *err = nullptr;
    const koshi_status status = function(arguments..., &err);
    if (status < 0)
        return detail::taken(status, err);
    return status;
}

template <class Function, class... Arguments>
koshi_status call(Function function, Arguments... arguments)
{
    return try_call(function, arguments...).value();
}

// Calls a function of koshi.h whose last two arguments are a new object and `err`, with the others.
// `Owner` is a type of koshi.h or a class of this header.
template <class Owner, class Function, class... Arguments>
auto try_make(Function function, Arguments... arguments)
{
    using made_type = typename detail::owner_of<Owner>::type;
    made_type made;
    auto status = try_call(function, arguments..., made.out());
    return status ? result<made_type>(std::move(made)) : result<made_type>(status.failure());
}

template <class Owner, class Function, class... Arguments>
auto make(Function function, Arguments... arguments)
{
    return try_make<Owner>(function, arguments...).value();
}

namespace detail {

// A struct with its size in front, filled by a function of the library.
template <class T, class Object>
result<T> filled(koshi_status (*function)(const Object *, T *, std::size_t, koshi_error **), const handle<Object> &object)
{
    T info{};
    auto status = try_call(function, object.get(), &info, sizeof info);
    if (!status)
        return status.failure();
    return info;
}

// Defaults of a config struct.
template <class T>
T defaults(koshi_status (*function)(T *, std::size_t, koshi_error **))
{
    T config{};
    call(function, &config, sizeof config);
    return config;
}

// What a function wrote to a buffer, as text.
template <class Function, class... Arguments>
result<std::string> text(Function function, Arguments... arguments)
{
    auto made = try_make<koshi_buffer>(function, arguments...);
    if (!made)
        return made.failure();
    const koshi_buffer *buffer = made.value().get();
    return std::string(reinterpret_cast<const char *>(koshi_buffer_data(buffer)), std::size_t(koshi_buffer_size(buffer)));
}

// One more owner of the same object.
template <class Owner>
Owner shared(const Owner &object) noexcept
{
    return Owner(ref_handle(object.get()));
}

} // namespace detail

// Bytes that the library has made.
class buffer : public handle<koshi_buffer> {
public:
    using handle::handle;
    buffer share() const noexcept { return detail::shared(*this); }

    span<const std::uint8_t> bytes() const noexcept
    {
        const std::int64_t size = koshi_buffer_size(get());
        return {koshi_buffer_data(get()), size > 0 ? std::size_t(size) : 0};
    }
    std::string to_string() const { return std::string(bytes().begin(), bytes().end()); }
};

// A transition model: from transition-ids to pdfs and phones.
class transitions : public handle<koshi_transitions> {
public:
    using handle::handle;
    static result<transitions> try_read(const std::string &path)
    {
        return try_make<transitions>(koshi_transitions_read, path.c_str());
    }
    static transitions read(const std::string &path) { return try_read(path).value(); }
    static result<transitions> try_from_memory(span<const std::uint8_t> bytes)
    {
        return try_make<transitions>(koshi_transitions_from_memory, bytes.data(), bytes.size());
    }
    static transitions from_memory(span<const std::uint8_t> bytes) { return try_from_memory(bytes).value(); }
    transitions share() const noexcept { return detail::shared(*this); }

    std::int32_t num_ids() const noexcept { return koshi_transitions_num_ids(get()); }
    std::int32_t num_pdfs() const noexcept { return koshi_transitions_num_pdfs(get()); }
    std::int32_t pdf(std::int32_t id) const noexcept { return koshi_transitions_pdf(get(), id); }
    std::int32_t phone(std::int32_t id) const noexcept { return koshi_transitions_phone(get(), id); }
    std::int32_t hmm_state(std::int32_t id) const noexcept { return koshi_transitions_hmm_state(get(), id); }
    bool is_self_loop(std::int32_t id) const noexcept { return koshi_transitions_is_self_loop(get(), id) == 1; }
};

// Words and their numbers.
class symbols : public handle<koshi_symbols> {
public:
    using handle::handle;
    static result<symbols> try_read(const std::string &path)
    {
        return try_make<symbols>(koshi_symbols_read, path.c_str());
    }
    static symbols read(const std::string &path) { return try_read(path).value(); }
    static result<symbols> try_from_memory(span<const std::uint8_t> bytes)
    {
        return try_make<symbols>(koshi_symbols_from_memory, bytes.data(), bytes.size());
    }
    static symbols from_memory(span<const std::uint8_t> bytes) { return try_from_memory(bytes).value(); }
    symbols share() const noexcept { return detail::shared(*this); }

    // Nothing where there is no such word or number.
    std::optional<std::int32_t> find(const std::string &text) const noexcept
    {
        const std::int32_t id = koshi_symbols_find(get(), text.c_str());
        return id >= 0 ? std::optional(id) : std::nullopt;
    }
    std::optional<std::string_view> name(std::int32_t id) const noexcept
    {
        const char *text = koshi_symbols_name(get(), id);
        return text != nullptr ? std::optional<std::string_view>(text) : std::nullopt;
    }
    std::int64_t size() const noexcept { return koshi_symbols_size(get()); }
};

// A decoding graph.
class graph : public handle<koshi_graph> {
public:
    using handle::handle;
    static result<graph> try_read(const std::string &path, const transitions *model = nullptr)
    {
        return try_make<graph>(koshi_graph_read, path.c_str(), detail::raw(model));
    }
    static graph read(const std::string &path, const transitions *model = nullptr)
    {
        return try_read(path, model).value();
    }
    static result<graph> try_from_memory(span<const std::uint8_t> bytes, const transitions *model = nullptr)
    {
        return try_make<graph>(koshi_graph_from_memory, bytes.data(), bytes.size(), detail::raw(model));
    }
    static graph from_memory(span<const std::uint8_t> bytes, const transitions *model = nullptr)
    {
        return try_from_memory(bytes, model).value();
    }
    static result<graph> try_read_mapped(const std::string &path, span<const std::int32_t> columns)
    {
        return try_make<graph>(koshi_graph_read_mapped, path.c_str(), columns.data(), columns.size());
    }
    static graph read_mapped(const std::string &path, span<const std::int32_t> columns)
    {
        return try_read_mapped(path, columns).value();
    }
    static result<graph> try_from_memory_mapped(span<const std::uint8_t> bytes, span<const std::int32_t> columns)
    {
        return try_make<graph>(koshi_graph_from_memory_mapped, bytes.data(), bytes.size(), columns.data(),
                               columns.size());
    }
    static graph from_memory_mapped(span<const std::uint8_t> bytes, span<const std::int32_t> columns)
    {
        return try_from_memory_mapped(bytes, columns).value();
    }
    graph share() const noexcept { return detail::shared(*this); }

    // A file that read() maps: there at once, its memory shared by processes.
    result<koshi_status> try_write_cache(const std::string &path) const
    {
        return try_call(koshi_graph_write_cache, get(), path.c_str());
    }
    void write_cache(const std::string &path) const { try_write_cache(path).value(); }
    // Waits for the check of such a file.
    result<koshi_status> try_check() const { return try_call(koshi_graph_check, get()); }
    void check() const { try_check().value(); }

    result<koshi_graph_summary> try_info() const { return detail::filled(koshi_graph_info, *this); }
    koshi_graph_summary info() const { return try_info().value(); }
};

// A path: its words, where they start, and its costs.
class path : public handle<koshi_path> {
public:
    using handle::handle;
    path share() const noexcept { return detail::shared(*this); }

    span<const std::int32_t> olabels() const noexcept { return detail::array(koshi_path_olabels, *this); }
    span<const std::int32_t> ilabels() const noexcept { return detail::array(koshi_path_ilabels, *this); }
    span<const std::uint32_t> frames() const noexcept { return detail::array(koshi_path_frames, *this); }
    double graph_cost() const noexcept { return koshi_path_graph_cost(get()); }
    double acoustic_cost() const noexcept { return koshi_path_acoustic_cost(get()); }
    double bias_cost() const noexcept { return koshi_path_bias_cost(get()); }

    // The words with spaces between them, by number without `names`.
    result<std::string> try_text(const symbols *names = nullptr) const
    {
        std::size_t size = 0;
        auto status = try_call(koshi_path_text, get(), detail::raw(names), nullptr, std::size_t(0), &size);
        if (!status)
            return status.failure();
        std::string text(size, '\0');
        // A string has room for the NUL behind its last character.
        status = try_call(koshi_path_text, get(), detail::raw(names), text.data(), size + 1, &size);
        if (!status)
            return status.failure();
        return text;
    }
    std::string text(const symbols *names = nullptr) const { return try_text(names).value(); }
};

// Paths of different words, the best first.
class paths : public handle<koshi_paths> {
public:
    using handle::handle;
    paths share() const noexcept { return detail::shared(*this); }

    std::size_t size() const noexcept
    {
        const std::int64_t size = koshi_paths_len(get());
        return size > 0 ? std::size_t(size) : 0;
    }
    // Holds nothing where there is no such path.
    path operator[](std::size_t at) const noexcept { return path(koshi_paths_at(get(), at)); }
    double posterior(std::size_t at) const noexcept { return koshi_paths_posterior(get(), at); }

    result<std::string> try_to_json(const symbols *names = nullptr) const
    {
        return detail::text(koshi_paths_to_json, get(), detail::raw(names));
    }
    std::string to_json(const symbols *names = nullptr) const { return try_to_json(names).value(); }
};

// Words with times and confidences.
class words : public handle<koshi_words> {
public:
    using handle::handle;
    words share() const noexcept { return detail::shared(*this); }
    static koshi_words_config defaults() { return detail::defaults(koshi_words_config_init); }

    span<const koshi_word> list() const noexcept { return detail::array(koshi_words_list, *this); }
    span<const koshi_word_bin> bins() const noexcept { return detail::array(koshi_words_bins, *this); }
    span<const koshi_word_alternative> alternatives() const noexcept
    {
        return detail::array(koshi_words_alternatives, *this);
    }
    double expected_errors() const noexcept { return koshi_words_expected_errors(get()); }

    static koshi_ctm_format ctm_defaults() { return detail::defaults(koshi_ctm_format_init); }
    result<std::string> try_to_ctm(const std::string &key, const koshi_ctm_format &format,
                                   const symbols *names = nullptr) const
    {
        return detail::text(koshi_words_to_ctm, get(), key.c_str(), &format, detail::raw(names));
    }
    std::string to_ctm(const std::string &key, const koshi_ctm_format &format, const symbols *names = nullptr) const
    {
        return try_to_ctm(key, format, names).value();
    }
    result<std::string> try_to_json(const std::string &key, float frame_shift, const symbols *names = nullptr) const
    {
        return detail::text(koshi_words_to_json, get(), key.c_str(), frame_shift, detail::raw(names));
    }
    std::string to_json(const std::string &key, float frame_shift, const symbols *names = nullptr) const
    {
        return try_to_json(key, frame_shift, names).value();
    }
};

// A word graph to rescore with: an ARPA file or a grammar.
class language_model : public handle<koshi_language_model> {
public:
    using handle::handle;
    static result<language_model> try_read(const std::string &path, const symbols *names = nullptr)
    {
        return try_make<language_model>(koshi_language_model_read, path.c_str(), detail::raw(names));
    }
    static language_model read(const std::string &path, const symbols *names = nullptr)
    {
        return try_read(path, names).value();
    }
    static result<language_model> try_from_memory(span<const std::uint8_t> bytes, const symbols *names = nullptr)
    {
        return try_make<language_model>(koshi_language_model_from_memory, bytes.data(), bytes.size(),
                                        detail::raw(names));
    }
    static language_model from_memory(span<const std::uint8_t> bytes, const symbols *names = nullptr)
    {
        return try_from_memory(bytes, names).value();
    }
    language_model share() const noexcept { return detail::shared(*this); }

    result<double> try_cost(span<const std::int32_t> sentence) const
    {
        double cost = 0;
        auto status = try_call(koshi_language_model_cost, get(), sentence.data(), sentence.size(), &cost);
        return status ? result<double>(cost) : result<double>(status.failure());
    }
    double cost(span<const std::int32_t> sentence) const { return try_cost(sentence).value(); }
};

// Which phones begin and end words.
class word_boundary : public handle<koshi_word_boundary> {
public:
    using handle::handle;
    static result<word_boundary> try_read(const std::string &path)
    {
        return try_make<word_boundary>(koshi_word_boundary_read, path.c_str());
    }
    static word_boundary read(const std::string &path) { return try_read(path).value(); }
    static result<word_boundary> try_from_memory(span<const std::uint8_t> bytes)
    {
        return try_make<word_boundary>(koshi_word_boundary_from_memory, bytes.data(), bytes.size());
    }
    static word_boundary from_memory(span<const std::uint8_t> bytes) { return try_from_memory(bytes).value(); }
    word_boundary share() const noexcept { return detail::shared(*this); }
};

// Pronunciations to find the words of a lattice by.
class align_lexicon : public handle<koshi_align_lexicon> {
public:
    using handle::handle;
    static result<align_lexicon> try_read(const std::string &path)
    {
        return try_make<align_lexicon>(koshi_align_lexicon_read, path.c_str());
    }
    static align_lexicon read(const std::string &path) { return try_read(path).value(); }
    static result<align_lexicon> try_from_memory(span<const std::uint8_t> bytes)
    {
        return try_make<align_lexicon>(koshi_align_lexicon_from_memory, bytes.data(), bytes.size());
    }
    static align_lexicon from_memory(span<const std::uint8_t> bytes) { return try_from_memory(bytes).value(); }
    align_lexicon share() const noexcept { return detail::shared(*this); }
};

struct determinized_lattice;
struct aligned_lattice;
struct oracle_path;

// A lattice, raw (state by state) or compact (word by word).
class lattice : public handle<koshi_lattice> {
public:
    using handle::handle;
    lattice share() const noexcept { return detail::shared(*this); }
    static koshi_determinize_config determinize_defaults() { return detail::defaults(koshi_determinize_config_init); }

    static result<lattice> try_from_memory(span<const std::uint8_t> bytes)
    {
        return try_make<lattice>(koshi_lattice_from_memory, bytes.data(), bytes.size());
    }
    static lattice from_memory(span<const std::uint8_t> bytes) { return try_from_memory(bytes).value(); }

    result<koshi_lattice_summary> try_info() const { return detail::filled(koshi_lattice_info, *this); }
    koshi_lattice_summary info() const { return try_info().value(); }
    span<const koshi_lattice_arc> arcs() const noexcept { return detail::array(koshi_lattice_arcs, *this); }
    // Where the arcs of each state begin, and behind the last state their number.
    span<const std::uint32_t> arc_offsets() const noexcept { return detail::array(koshi_lattice_arc_offsets, *this); }
    span<const koshi_lattice_cost> final_costs() const noexcept
    {
        return detail::array(koshi_lattice_final_costs, *this);
    }
    span<const float> bias_costs() const noexcept { return detail::array(koshi_lattice_bias_costs, *this); }
    span<const float> final_bias_costs() const noexcept
    {
        return detail::array(koshi_lattice_final_bias_costs, *this);
    }
    span<const std::uint32_t> times() const noexcept { return detail::array(koshi_lattice_times, *this); }
    span<const std::int32_t> string(std::size_t arc) const noexcept
    {
        std::size_t size = 0;
        const std::int32_t *data = koshi_lattice_string(get(), arc, &size);
        return {data, size};
    }
    span<const std::int32_t> final_string(std::size_t state) const noexcept
    {
        std::size_t size = 0;
        const std::int32_t *data = koshi_lattice_final_string(get(), state, &size);
        return {data, size};
    }

    result<path> try_best_path(float acoustic_scale) const
    {
        return try_make<path>(koshi_lattice_best_path, get(), acoustic_scale);
    }
    path best_path(float acoustic_scale) const { return try_best_path(acoustic_scale).value(); }
    result<paths> try_nbest(std::size_t n, float acoustic_scale) const
    {
        return try_make<paths>(koshi_lattice_nbest, get(), n, acoustic_scale);
    }
    paths nbest(std::size_t n, float acoustic_scale) const { return try_nbest(n, acoustic_scale).value(); }

    result<lattice> try_prune(float beam, float acoustic_scale) const
    {
        return try_make<lattice>(koshi_lattice_prune, get(), beam, acoustic_scale);
    }
    lattice prune(float beam, float acoustic_scale) const { return try_prune(beam, acoustic_scale).value(); }
    result<lattice> try_scale(float graph, float acoustic) const
    {
        return try_make<lattice>(koshi_lattice_scale, get(), graph, acoustic);
    }
    lattice scale(float graph, float acoustic) const { return try_scale(graph, acoustic).value(); }
    result<lattice> try_apply_bias(float scale) const
    {
        return try_make<lattice>(koshi_lattice_apply_bias, get(), scale);
    }
    lattice apply_bias(float scale) const { return try_apply_bias(scale).value(); }
    result<lattice> try_to_raw() const { return try_make<lattice>(koshi_lattice_to_raw, get()); }
    lattice to_raw() const { return try_to_raw().value(); }
    result<lattice> try_to_compact() const { return try_make<lattice>(koshi_lattice_to_compact, get()); }
    lattice to_compact() const { return try_to_compact().value(); }
    result<lattice> try_push(float acoustic_scale) const
    {
        return try_make<lattice>(koshi_lattice_push, get(), acoustic_scale);
    }
    lattice push(float acoustic_scale) const { return try_push(acoustic_scale).value(); }
    result<lattice> try_minimize(float acoustic_scale, float delta) const
    {
        return try_make<lattice>(koshi_lattice_minimize, get(), acoustic_scale, delta);
    }
    lattice minimize(float acoustic_scale, float delta) const { return try_minimize(acoustic_scale, delta).value(); }
    result<lattice> try_unite(const lattice &other) const
    {
        return try_make<lattice>(koshi_lattice_union, get(), other.get());
    }
    lattice unite(const lattice &other) const { return try_unite(other).value(); }
    result<lattice> try_rescore(const language_model *old_model, const language_model &new_model, float scale) const
    {
        return try_make<lattice>(koshi_lattice_rescore, get(), detail::raw(old_model), new_model.get(), scale);
    }
    lattice rescore(const language_model *old_model, const language_model &new_model, float scale) const
    {
        return try_rescore(old_model, new_model, scale).value();
    }

    // One path for each word sequence. Without a model there is no pass over phones; without options they are
    // the defaults, at the scale of the search.
    result<determinized_lattice> try_determinize(const transitions *model) const;
    determinized_lattice determinize(const transitions *model) const;
    result<determinized_lattice> try_determinize(const transitions *model,
                                                 const koshi_determinize_config &config) const;
    determinized_lattice determinize(const transitions *model, const koshi_determinize_config &config) const;

    static koshi_align_options align_defaults() { return detail::defaults(koshi_align_options_init); }
    // Words that begin and end with their arcs, by the phones that begin and end words or by pronunciations.
    result<aligned_lattice> try_align_words(const transitions &model, const word_boundary &boundary,
                                            const koshi_align_options &options) const;
    aligned_lattice align_words(const transitions &model, const word_boundary &boundary,
                                const koshi_align_options &options) const;
    result<aligned_lattice> try_align_words(const transitions &model, const align_lexicon &lexicon,
                                            const koshi_align_options &options) const;
    aligned_lattice align_words(const transitions &model, const align_lexicon &lexicon,
                                const koshi_align_options &options) const;

    // The path nearest to a sentence.
    result<oracle_path> try_oracle(span<const std::int32_t> sentence) const;
    oracle_path oracle(span<const std::int32_t> sentence) const;

    // Words with confidences, by minimum Bayes risk; of a sentence of the caller's; of the best path. Without
    // options they are the defaults, at the scale of the search.
    result<koshi::words> try_words() const
    {
        const koshi_words_config *defaults = nullptr;
        return try_make<koshi::words>(koshi_lattice_words, get(), defaults);
    }
    koshi::words words() const { return try_words().value(); }
    result<koshi::words> try_words(const koshi_words_config &config) const
    {
        return try_make<koshi::words>(koshi_lattice_words, get(), &config);
    }
    koshi::words words(const koshi_words_config &config) const { return try_words(config).value(); }
    result<koshi::words> try_words_of(span<const std::int32_t> sentence, const koshi_words_config &config) const
    {
        return try_make<koshi::words>(koshi_lattice_words_of, get(), sentence.data(), sentence.size(), &config);
    }
    koshi::words words_of(span<const std::int32_t> sentence, const koshi_words_config &config) const
    {
        return try_words_of(sentence, config).value();
    }
    result<koshi::words> try_best_words(float acoustic_scale, bool keep_silence) const
    {
        return try_make<koshi::words>(koshi_lattice_best_words, get(), acoustic_scale, int(keep_silence));
    }
    koshi::words best_words(float acoustic_scale, bool keep_silence) const
    {
        return try_best_words(acoustic_scale, keep_silence).value();
    }

    double depth() const noexcept { return koshi_lattice_depth(get()); }

    result<buffer> try_to_memory(koshi_lattice_format format) const
    {
        return try_make<buffer>(koshi_lattice_to_memory, get(), std::int32_t(format));
    }
    buffer to_memory(koshi_lattice_format format) const { return try_to_memory(format).value(); }
    result<std::string> try_to_json(const symbols *names = nullptr) const
    {
        return detail::text(koshi_lattice_to_json, get(), detail::raw(names));
    }
    std::string to_json(const symbols *names = nullptr) const { return try_to_json(names).value(); }
    result<std::string> try_to_dot(const symbols *names = nullptr) const
    {
        return detail::text(koshi_lattice_to_dot, get(), detail::raw(names));
    }
    std::string to_dot(const symbols *names = nullptr) const { return try_to_dot(names).value(); }
};

struct determinized_lattice {
    koshi::lattice lattice;
    // The beam within which all word sequences are there, and whether it is the one that was asked for.
    float effective_beam;
    bool complete;
};

struct aligned_lattice {
    // The lattice as it was, where it cannot be aligned.
    koshi::lattice lattice;
    koshi_alignment alignment;
};

struct oracle_path {
    koshi::path path;
    std::uint32_t errors;
};

namespace detail {

template <class Function, class... Arguments>
result<determinized_lattice> determinized(Function function, Arguments... arguments)
{
    determinized_lattice made{};
    auto status = try_call(function, arguments..., made.lattice.out(), &made.effective_beam);
    if (!status)
        return status.failure();
    made.complete = status.value() == KOSHI_OK;
    return made;
}

} // namespace detail

inline result<determinized_lattice> lattice::try_determinize(const transitions *model) const
{
    const koshi_determinize_config *defaults = nullptr;
    return detail::determinized(koshi_lattice_determinize, get(), detail::raw(model), defaults);
}

inline determinized_lattice lattice::determinize(const transitions *model) const
{
    return try_determinize(model).value();
}

inline result<determinized_lattice> lattice::try_determinize(const transitions *model,
                                                             const koshi_determinize_config &config) const
{
    return detail::determinized(koshi_lattice_determinize, get(), detail::raw(model), &config);
}

inline determinized_lattice lattice::determinize(const transitions *model,
                                                 const koshi_determinize_config &config) const
{
    return try_determinize(model, config).value();
}

namespace detail {

template <class Table, class Function>
result<aligned_lattice> align(Function function, const lattice &lattice, const transitions &model, const Table &table,
                              const koshi_align_options &options)
{
    aligned_lattice made{};
    std::int32_t alignment = 0;
    auto status =
        try_call(function, lattice.get(), model.get(), table.get(), &options, made.lattice.out(), &alignment);
    if (!status)
        return status.failure();
    made.alignment = koshi_alignment(alignment);
    return made;
}

} // namespace detail

inline result<aligned_lattice> lattice::try_align_words(const transitions &model, const word_boundary &boundary,
                                                        const koshi_align_options &options) const
{
    return detail::align(koshi_lattice_align_words, *this, model, boundary, options);
}

inline aligned_lattice lattice::align_words(const transitions &model, const word_boundary &boundary,
                                            const koshi_align_options &options) const
{
    return try_align_words(model, boundary, options).value();
}

inline result<aligned_lattice> lattice::try_align_words(const transitions &model, const align_lexicon &lexicon,
                                                        const koshi_align_options &options) const
{
    return detail::align(koshi_lattice_align_words_lexicon, *this, model, lexicon, options);
}

inline aligned_lattice lattice::align_words(const transitions &model, const align_lexicon &lexicon,
                                            const koshi_align_options &options) const
{
    return try_align_words(model, lexicon, options).value();
}

inline result<oracle_path> lattice::try_oracle(span<const std::int32_t> sentence) const
{
    oracle_path found{};
    auto status =
        try_call(koshi_lattice_oracle, get(), sentence.data(), sentence.size(), &found.errors, found.path.out());
    if (!status)
        return status.failure();
    return found;
}

inline oracle_path lattice::oracle(span<const std::int32_t> sentence) const
{
    return try_oracle(sentence).value();
}

// Log-likelihoods of the caller's: `frames` rows of `columns`, `stride` elements apart.
struct rows {
    const float *data = nullptr;
    std::size_t frames = 0;
    std::size_t columns = 0;
    std::size_t stride = 0;

    constexpr rows() noexcept = default;
    constexpr rows(const float *data, std::size_t frames, std::size_t columns) noexcept
        : rows(data, frames, columns, columns)
    {
    }
    constexpr rows(const float *data, std::size_t frames, std::size_t columns, std::size_t stride) noexcept
        : data(data), frames(frames), columns(columns), stride(stride)
    {
    }
    // Rows from `first` on, at most `most` of them.
    constexpr rows slice(std::size_t first, std::size_t most) const noexcept
    {
        const std::size_t from = first < frames ? first : frames;
        const std::size_t count = most < frames - from ? most : frames - from;
        return {data + from * stride, count, columns, stride};
    }
};

// Log-likelihoods that are computed when they are asked for. Members may throw.
class scores {
public:
    virtual ~scores() = default;
    virtual std::int32_t num_columns() = 0;
    // How many frames can be asked for now; never falls.
    virtual std::int64_t num_frames_ready() = 0;
    virtual bool is_last_frame(std::int64_t frame) = 0;
    // Writes the `columns` log-likelihoods of a frame.
    virtual void fill(std::int64_t frame, float *row, std::size_t columns) = 0;
};

// Scores in the form that a channel pulls from.
class decodable : public handle<koshi_decodable> {
public:
    decodable() noexcept = default;
    explicit decodable(std::unique_ptr<scores> source) : decodable(try_of(std::move(source)).value()) {}

    static result<decodable> try_of(std::unique_ptr<scores> source)
    {
        koshi_decodable_ops ops{};
        ops.struct_size = sizeof ops;
        ops.frame_log_likelihoods = [](void *self, std::int64_t frame, float *row, std::size_t columns) {
            return guarded(self, koshi_status(KOSHI_E_CALLBACK), [&](scores &source) {
                source.fill(frame, row, columns);
                return koshi_status(KOSHI_OK);
            });
        };
        ops.num_frames_ready = [](void *self) {
            return guarded(self, std::int64_t(KOSHI_E_CALLBACK),
                           [](scores &source) { return source.num_frames_ready(); });
        };
        ops.is_last_frame = [](void *self, std::int64_t frame) {
            return guarded(self, std::int32_t(KOSHI_E_CALLBACK),
                           [&](scores &source) { return std::int32_t(source.is_last_frame(frame)); });
        };
        ops.num_indices = [](void *self) {
            return guarded(self, std::int32_t(KOSHI_E_CALLBACK), [](scores &source) { return source.num_columns(); });
        };
        auto kept = std::make_unique<state>();
        kept->source = std::move(source);
        decodable made;
        made.state_ = kept.get();
        // From here on the library drops it, also when the call fails.
        auto status = try_call(koshi_decodable_new, &ops, static_cast<void *>(kept.release()),
                               koshi_drop_fn([](void *self) { delete static_cast<state *>(self); }), made.out());
        if (!status)
            return status.failure();
        return made;
    }

    // Rows that are there already, and stay as they are until this is freed.
    static result<decodable> try_from_matrix(const rows &rows)
    {
        return try_make<decodable>(koshi_decodable_from_matrix, rows.data, rows.frames, rows.columns, rows.stride);
    }
    static decodable from_matrix(const rows &rows) { return try_from_matrix(rows).value(); }

    // What a member of the scores threw during the last call, if it did.
    std::exception_ptr thrown() const noexcept { return state_ != nullptr ? state_->thrown : nullptr; }
    void forget_thrown() noexcept
    {
        if (state_ != nullptr)
            state_->thrown = nullptr;
    }

    decodable(decodable &&other) noexcept : handle(std::move(other)), state_(std::exchange(other.state_, nullptr)) {}
    decodable &operator=(decodable &&other) noexcept
    {
        handle::operator=(std::move(other));
        state_ = std::exchange(other.state_, nullptr);
        return *this;
    }

private:
    struct state {
        std::unique_ptr<scores> source;
        std::exception_ptr thrown;
    };

    // No exception may pass through the library: it is kept, and thrown on by channel::advance.
    template <class T, class Body>
    static T guarded(void *self, T failed, Body body) noexcept
    {
        auto *kept = static_cast<state *>(self);
        try {
            return body(*kept->source);
        } catch (...) {
            kept->thrown = std::current_exception();
            return failed;
        }
    }

    state *state_ = nullptr;
};

// A graph, options, and the lanes that search it; shared by any number of channels and threads.
class decoder : public handle<koshi_decoder> {
public:
    decoder() noexcept = default;
    explicit decoder(const graph &graph) : decoder(try_new(graph).value()) {}
    decoder(const graph &graph, const koshi_decoder_config &config) : decoder(try_new(graph, config).value()) {}

    static koshi_decoder_config defaults() { return detail::defaults(koshi_decoder_config_init); }
    static result<decoder> try_new(const graph &graph) { return try_new(graph, defaults()); }
    static result<decoder> try_new(const graph &graph, const koshi_decoder_config &config)
    {
        return try_make<decoder>(koshi_decoder_new, static_cast<const koshi_graph *>(graph.get()), &config);
    }

    result<koshi_decoder_summary> try_info() const { return detail::filled(koshi_decoder_info, *this); }
    koshi_decoder_summary info() const { return try_info().value(); }

    static koshi_endpoint_config endpoint_defaults() { return detail::defaults(koshi_endpoint_config_init); }
    // `silence` lists what config.silence says it does.
    result<koshi_status> try_set_endpoint_rules(const koshi_endpoint_config &config,
                                                span<const std::int32_t> silence) const
    {
        return try_call(koshi_decoder_set_endpoint_rules, get(), &config, silence.data(), silence.size());
    }
    void set_endpoint_rules(const koshi_endpoint_config &config, span<const std::int32_t> silence) const
    {
        try_set_endpoint_rules(config, silence).value();
    }
    result<koshi_metrics> try_metrics() const { return detail::filled(koshi_decoder_metrics, *this); }
    koshi_metrics metrics() const { return try_metrics().value(); }

    // Each item gets its own status; true if all succeeded.
    result<bool> try_advance(span<koshi_decoder_item> items) const
    {
        auto status = try_call(koshi_decoder_advance, get(), items.data(), items.size(), sizeof(koshi_decoder_item));
        return status ? result<bool>(status.value() == KOSHI_OK) : result<bool>(status.failure());
    }
    bool advance(span<koshi_decoder_item> items) const { return try_advance(items).value(); }
};

// The best path now, and how many of its words can no longer change.
struct partial_path {
    koshi::path path;
    std::size_t stable_words;
};

// Words that are made more likely, or by a bonus below 0 less.
struct phrase {
    std::vector<std::int32_t> labels;
    float bonus;
};

namespace detail {

inline std::vector<koshi_phrase> raw_phrases(const std::vector<phrase> &phrases)
{
    std::vector<koshi_phrase> raw;
    raw.reserve(phrases.size());
    for (const phrase &each : phrases)
        raw.push_back({each.labels.data(), each.labels.size(), each.bonus, 0});
    return raw;
}

} // namespace detail

// A segment of an endless utterance, closed by an end point.
struct closed_segment {
    koshi_endpoint end;
    koshi::path path;
    koshi::lattice lattice;
};

// Frames of an endless stream that were committed, in a lattice whose times count from the first of them.
struct committed_frames {
    std::uint64_t first_frame;
    koshi::lattice lattice;
};

class channel;

// What a channel tells of its queued rows, all on one thread of the decoder's. What a member throws is dropped.
class listener {
public:
    virtual ~listener() = default;
    // The channel is lent for the call.
    virtual void partial(channel &) {}
    virtual void endpoint(channel &) {}
    virtual void finished(channel &) {}
    virtual void failed(channel &, const error &) {}
};

// One utterance at a time.
class channel : public handle<koshi_channel> {
public:
    channel() noexcept = default;
    explicit channel(const decoder &decoder) : channel(try_new(decoder).value()) {}
    static result<channel> try_new(const decoder &decoder)
    {
        return try_make<channel>(koshi_channel_new, static_cast<const koshi_decoder *>(decoder.get()));
    }

    result<koshi_status> try_begin() { return try_call(koshi_channel_begin, get()); }
    void begin() { try_begin().value(); }
    // KOSHI_OK_PARTIAL where an end point has stopped it: num_frames() says how far it came.
    result<koshi_status> try_push(const rows &rows)
    {
        return try_call(koshi_channel_push, get(), rows.data, rows.frames, rows.columns, rows.stride);
    }
    koshi_status push(const rows &rows) { return try_push(rows).value(); }
    // Rows in the memory of the decoder's GPU, behind what `stream` (a CUstream) holds.
    result<koshi_status> try_push_device(std::uint64_t rows, std::size_t frames, std::size_t columns,
                                         std::size_t stride, void *stream = nullptr)
    {
        return try_call(koshi_channel_push_device, get(), rows, frames, columns, stride, stream);
    }
    koshi_status push_device(std::uint64_t rows, std::size_t frames, std::size_t columns, std::size_t stride,
                             void *stream = nullptr)
    {
        return try_push_device(rows, frames, columns, stride, stream).value();
    }
    result<koshi_status> try_submit(const rows &rows)
    {
        return try_call(koshi_channel_submit, get(), rows.data, rows.frames, rows.columns, rows.stride);
    }
    void submit(const rows &rows) { try_submit(rows).value(); }
    result<koshi_status> try_submit(const decodable &source)
    {
        return try_call(koshi_channel_submit_decodable, get(), source.get());
    }
    void submit(const decodable &source) { try_submit(source).value(); }
    // True if all that was submitted is done, false if that takes longer than `seconds`; below 0 there
    // is no bound.
    result<bool> try_wait(double seconds = -1)
    {
        auto status = try_call(koshi_channel_wait, get(), seconds);
        return status ? result<bool>(status.value() == KOSHI_OK) : result<bool>(status.failure());
    }
    bool wait(double seconds = -1) { return try_wait(seconds).value(); }
    // In place of the one set before, which is freed; nullptr: nobody.
    result<koshi_status> try_set_listener(std::unique_ptr<koshi::listener> listener);
    void set_listener(std::unique_ptr<koshi::listener> listener) { try_set_listener(std::move(listener)).value(); }
    // In place of those set before.
    result<koshi_status> try_set_bias(const std::vector<phrase> &phrases)
    {
        const std::vector<koshi_phrase> raw = detail::raw_phrases(phrases);
        return try_call(koshi_channel_set_bias, get(), raw.data(), raw.size());
    }
    void set_bias(const std::vector<phrase> &phrases) { try_set_bias(phrases).value(); }
    // How many frames were searched; at most `max_frames`, if that is not negative. An exception of the
    // scores' own is thrown on, and from try_advance to be found in decodable::thrown.
    result<std::uint64_t> try_advance(decodable &source, std::int64_t max_frames = -1)
    {
        source.forget_thrown();
        std::uint64_t frames = 0;
        auto status = try_call(koshi_channel_advance, get(), source.get(), max_frames, &frames);
        return status ? result<std::uint64_t>(frames) : result<std::uint64_t>(status.failure());
    }
    std::uint64_t advance(decodable &source, std::int64_t max_frames = -1)
    {
        auto frames = try_advance(source, max_frames);
        if (!frames && source.thrown())
            std::rethrow_exception(source.thrown());
        return frames.value();
    }
    result<koshi_status> try_finish() { return try_call(koshi_channel_finish, get()); }
    void finish() { try_finish().value(); }
    // From any thread, at any time.
    result<koshi_status> try_cancel() { return try_call(koshi_channel_cancel, get()); }
    void cancel() { try_cancel().value(); }

    std::int64_t num_frames() const noexcept { return koshi_channel_num_frames(get()); }
    bool reached_final() const noexcept { return koshi_channel_reached_final(get()) == 1; }
    float final_relative_cost() const noexcept { return koshi_channel_final_relative_cost(get()); }

    result<path> try_best_path(bool use_final) const
    {
        return try_make<path>(koshi_channel_best_path, static_cast<const koshi_channel *>(get()), int(use_final));
    }
    path best_path(bool use_final) const { return try_best_path(use_final).value(); }
    result<koshi::lattice> try_best_path_lattice(bool use_final) const
    {
        return try_make<koshi::lattice>(koshi_channel_best_path_lattice, static_cast<const koshi_channel *>(get()),
                                        int(use_final));
    }
    koshi::lattice best_path_lattice(bool use_final) const { return try_best_path_lattice(use_final).value(); }
    result<partial_path> try_partial() const
    {
        partial_path now{};
        auto status = try_call(koshi_channel_partial, get(), now.path.out(), &now.stable_words);
        if (!status)
            return status.failure();
        return now;
    }
    partial_path partial() const { return try_partial().value(); }
    // The same without the first `from_word` words, at a cost that follows what is new.
    result<partial_path> try_partial_words(std::size_t from_word) const
    {
        partial_path now{};
        auto status = try_call(koshi_channel_partial_words, get(), from_word, now.path.out(), &now.stable_words);
        if (!status)
            return status.failure();
        return now;
    }
    partial_path partial_words(std::size_t from_word) const { return try_partial_words(from_word).value(); }
    result<koshi_endpoint> try_endpoint() const { return detail::filled(koshi_channel_endpoint, *this); }
    koshi_endpoint endpoint() const { return try_endpoint().value(); }
    std::int64_t num_segments() const noexcept { return koshi_channel_num_segments(get()); }
    result<closed_segment> try_segment(std::uint64_t number) const
    {
        closed_segment found{};
        auto status = try_call(koshi_channel_segment, get(), number, &found.end, sizeof found.end, found.path.out(),
                               found.lattice.out());
        if (!status)
            return status.failure();
        return found;
    }
    closed_segment segment(std::uint64_t number) const { return try_segment(number).value(); }
    result<koshi::lattice> try_lattice(bool use_final)
    {
        return try_make<koshi::lattice>(koshi_channel_lattice, get(), int(use_final));
    }
    koshi::lattice lattice(bool use_final) { return try_lattice(use_final).value(); }
    // The compact lattice, little by little: settle from time to time, and the end takes no longer for a
    // longer call.
    result<koshi_status> try_set_determinize(const transitions *model, const koshi_determinize_config *config = nullptr)
    {
        return try_call(koshi_channel_set_determinize, get(), detail::raw(model), config);
    }
    void set_determinize(const transitions *model, const koshi_determinize_config *config = nullptr)
    {
        try_set_determinize(model, config).value();
    }
    result<koshi_status> try_settle() { return try_call(koshi_channel_settle, get()); }
    void settle() { try_settle().value(); }
    result<determinized_lattice> try_compact_lattice(bool use_final)
    {
        return detail::determinized(koshi_channel_compact_lattice, get(), int(use_final));
    }
    determinized_lattice compact_lattice(bool use_final) { return try_compact_lattice(use_final).value(); }
    // Endless streams: with 0 frames nothing is committed any more.
    result<koshi_status> try_set_commit(std::uint64_t commit_frames, std::uint64_t lattice_frames)
    {
        return try_call(koshi_channel_set_commit, get(), commit_frames, lattice_frames);
    }
    void set_commit(std::uint64_t commit_frames, std::uint64_t lattice_frames)
    {
        try_set_commit(commit_frames, lattice_frames).value();
    }
    std::int64_t num_committed() const noexcept { return koshi_channel_committed_frames(get()); }
    // The oldest that were not handed out; nothing where there are none.
    result<std::optional<committed_frames>> try_committed()
    {
        committed_frames oldest{};
        auto status = try_call(koshi_channel_committed_lattice, get(), oldest.lattice.out(), &oldest.first_frame);
        if (!status)
            return status.failure();
        return oldest.lattice ? std::optional<committed_frames>(std::move(oldest)) : std::nullopt;
    }
    std::optional<committed_frames> committed() { return try_committed().value(); }
    result<koshi_search_stats> try_stats() const { return detail::filled(koshi_channel_stats, *this); }
    koshi_search_stats stats() const { return try_stats().value(); }
};

namespace detail {

// Calls a member of a listener with a channel that is not its to free. No exception may pass the library.
template <class Body>
void tell(void *self, koshi_channel *raw, Body body) noexcept
{
    channel from;
    from.reset(raw);
    try {
        body(*static_cast<listener *>(self), from);
    } catch (...) {
    }
    from.release();
}

} // namespace detail

inline result<koshi_status> channel::try_set_listener(std::unique_ptr<koshi::listener> listener)
{
    if (!listener)
        return try_call(koshi_channel_set_listener, get(), nullptr, nullptr, nullptr);
    koshi_channel_listener told{};
    told.struct_size = sizeof told;
    told.partial = [](void *self, koshi_channel *raw) {
        detail::tell(self, raw, [](koshi::listener &listener, channel &from) { listener.partial(from); });
    };
    told.endpoint = [](void *self, koshi_channel *raw) {
        detail::tell(self, raw, [](koshi::listener &listener, channel &from) { listener.endpoint(from); });
    };
    told.finished = [](void *self, koshi_channel *raw) {
        detail::tell(self, raw, [](koshi::listener &listener, channel &from) { listener.finished(from); });
    };
    told.failed = [](void *self, koshi_channel *raw, koshi_status status, const char *message) {
        detail::tell(self, raw, [&](koshi::listener &listener, channel &from) {
            listener.failed(from, error(status, message));
        });
    };
    const koshi_drop_fn drop = [](void *self) { delete static_cast<koshi::listener *>(self); };
    // From here on the library drops it, also when the call fails.
    return try_call(koshi_channel_set_listener, get(), static_cast<const koshi_channel_listener *>(&told),
                    static_cast<void *>(listener.release()), drop);
}

// Memory for derivatives, in rows that begin `stride` elements apart; none: they are not computed.
struct derivatives {
    float *data = nullptr;
    std::size_t stride = 0;
};

// The denominator graph of chain training.
class den_graph : public handle<koshi_den_graph> {
public:
    using handle::handle;
    static result<den_graph> try_read(const std::string &path, std::size_t num_pdfs)
    {
        return try_make<den_graph>(koshi_den_graph_read, path.c_str(), num_pdfs);
    }
    static den_graph read(const std::string &path, std::size_t num_pdfs) { return try_read(path, num_pdfs).value(); }
    static result<den_graph> try_from_memory(span<const std::uint8_t> bytes, std::size_t num_pdfs)
    {
        return try_make<den_graph>(koshi_den_graph_from_memory, bytes.data(), bytes.size(), num_pdfs);
    }
    static den_graph from_memory(span<const std::uint8_t> bytes, std::size_t num_pdfs)
    {
        return try_from_memory(bytes, num_pdfs).value();
    }
    den_graph share() const noexcept { return detail::shared(*this); }

    std::int64_t num_states() const noexcept { return koshi_den_graph_num_states(get()); }
    std::int64_t num_pdfs() const noexcept { return koshi_den_graph_num_pdfs(get()); }
    span<const float> initial_probs() const noexcept { return detail::array(koshi_den_graph_initial_probs, *this); }
};

// What was said in each sequence of a minibatch of chain training.
class supervision : public handle<koshi_supervision> {
public:
    using handle::handle;
    static result<supervision> try_read(const std::string &path)
    {
        return try_make<supervision>(koshi_supervision_read, path.c_str());
    }
    static supervision read(const std::string &path) { return try_read(path).value(); }
    static result<supervision> try_from_memory(span<const std::uint8_t> bytes)
    {
        return try_make<supervision>(koshi_supervision_from_memory, bytes.data(), bytes.size());
    }
    static supervision from_memory(span<const std::uint8_t> bytes) { return try_from_memory(bytes).value(); }
    // A minibatch of all their sequences, in order.
    static result<supervision> try_merge(const std::vector<supervision> &parts)
    {
        std::vector<const koshi_supervision *> raw;
        raw.reserve(parts.size());
        for (const supervision &each : parts)
            raw.push_back(each.get());
        return try_make<supervision>(koshi_supervision_merge, raw.data(), raw.size());
    }
    static supervision merge(const std::vector<supervision> &parts) { return try_merge(parts).value(); }
    supervision share() const noexcept { return detail::shared(*this); }

    result<buffer> try_to_memory(bool binary) const
    {
        return try_make<buffer>(koshi_supervision_to_memory, get(), std::int32_t(binary));
    }
    buffer to_memory(bool binary) const { return try_to_memory(binary).value(); }
    std::int64_t num_sequences() const noexcept { return koshi_supervision_num_sequences(get()); }
    std::int64_t frames_per_sequence() const noexcept { return koshi_supervision_frames_per_sequence(get()); }
    std::int64_t num_pdfs() const noexcept { return koshi_supervision_num_pdfs(get()); }
    bool is_end_to_end() const noexcept { return koshi_supervision_is_end_to_end(get()) == 1; }
    float weight() const noexcept { return koshi_supervision_weight(get()); }
};

struct chain_objective {
    double objf;
    double l2_term;
    double weight;
    // False where no objective can be had, and a stated one takes its place.
    bool complete;
};

struct chain_logprob {
    double logprob;
    bool complete;
};

inline koshi_chain_config chain_defaults() { return detail::defaults(koshi_chain_config_init); }

inline result<chain_objective> try_chain_objf(const den_graph &graph, const supervision &said,
                                              const koshi_chain_config &config, const rows &output,
                                              derivatives deriv = {}, derivatives xent_deriv = {})
{
    chain_objective found{};
    auto status = try_call(koshi_chain_objf, graph.get(), said.get(), &config, output.data, output.frames,
                           output.columns, output.stride, &found.objf, &found.l2_term, &found.weight, deriv.data,
                           deriv.stride, xent_deriv.data, xent_deriv.stride);
    if (!status)
        return status.failure();
    found.complete = status.value() == KOSHI_OK;
    return found;
}
inline chain_objective chain_objf(const den_graph &graph, const supervision &said, const koshi_chain_config &config,
                                  const rows &output, derivatives deriv = {}, derivatives xent_deriv = {})
{
    return try_chain_objf(graph, said, config, output, deriv, xent_deriv).value();
}

// `lengths` are the frames of each sequence; without any, all have as many.
inline result<chain_logprob> try_chain_denominator(const den_graph &graph, const koshi_chain_config &config,
                                                   std::size_t num_sequences, const rows &output,
                                                   derivatives deriv = {}, float deriv_weight = 1,
                                                   span<const std::uint32_t> lengths = {})
{
    chain_logprob found{};
    if (!lengths.empty() && lengths.size() != num_sequences)
        return error(KOSHI_E_SHAPE, "lengths: not one for each sequence");
    auto status = try_call(koshi_chain_denominator, graph.get(), &config, num_sequences, lengths.data(), output.data,
                           output.frames, output.columns, output.stride, &found.logprob, deriv_weight, deriv.data,
                           deriv.stride);
    if (!status)
        return status.failure();
    found.complete = status.value() == KOSHI_OK;
    return found;
}
inline chain_logprob chain_denominator(const den_graph &graph, const koshi_chain_config &config,
                                       std::size_t num_sequences, const rows &output, derivatives deriv = {},
                                       float deriv_weight = 1, span<const std::uint32_t> lengths = {})
{
    return try_chain_denominator(graph, config, num_sequences, output, deriv, deriv_weight, lengths).value();
}

inline result<chain_logprob> try_chain_numerator(const supervision &said, const rows &output, derivatives deriv = {})
{
    chain_logprob found{};
    auto status = try_call(koshi_chain_numerator, said.get(), output.data, output.frames, output.columns,
                           output.stride, &found.logprob, deriv.data, deriv.stride);
    if (!status)
        return status.failure();
    found.complete = status.value() == KOSHI_OK;
    return found;
}
inline chain_logprob chain_numerator(const supervision &said, const rows &output, derivatives deriv = {})
{
    return try_chain_numerator(said, output, deriv).value();
}

inline result<koshi_status> try_chain_penalize_out_of_range(float limit, float scale, const rows &output,
                                                            derivatives deriv)
{
    return try_call(koshi_chain_penalize_out_of_range, limit, scale, output.data, output.frames, output.columns,
                    output.stride, deriv.data, deriv.stride);
}
inline void chain_penalize_out_of_range(float limit, float scale, const rows &output, derivatives deriv)
{
    try_chain_penalize_out_of_range(limit, scale, output, deriv).value();
}

// The networks of a transducer. Members may throw, and run on all threads that search at the same time.
class networks {
public:
    virtual ~networks() = default;
    // Row i reads labels[i] after the history of states_in[i]: the state after it, and its row of outputs.
    virtual void predict(span<const std::uint64_t> states_in, span<const std::int32_t> labels,
                         span<std::uint64_t> states_out, span<float> outputs) = 0;
    // Row i of the scores joins row i of both.
    virtual void join(const rows &encoder_rows, const rows &outputs, span<float> scores) = 0;
    // Takes a state back; what it throws is dropped.
    virtual void release_state(koshi_transducer_part, std::uint64_t) {}
    // Only called where network_sizes::language_model says so.
    virtual void lm_predict(span<const std::uint64_t> /* states_in */, span<const std::int32_t> /* labels */,
                            span<std::uint64_t> /* states_out */, span<float> /* log_probs */)
    {
    }
};

struct network_sizes {
    std::uint32_t vocab_size = 0;
    std::uint32_t encoder_dim = 0;
    std::uint32_t output_dim = 0;
    std::int32_t blank = 0;
    koshi_transducer_scores scores = KOSHI_TRANSDUCER_LOGITS;
    bool language_model = false;
};

// An n-best list of a transducer search, best first.
class hypotheses : public handle<koshi_hypotheses> {
public:
    using handle::handle;
    hypotheses share() const noexcept { return detail::shared(*this); }

    std::size_t size() const noexcept
    {
        const std::int64_t size = koshi_hypotheses_len(get());
        return size > 0 ? std::size_t(size) : 0;
    }
    span<const std::int32_t> labels(std::size_t at) const noexcept { return array(koshi_hypotheses_labels, at); }
    span<const std::uint32_t> frames(std::size_t at) const noexcept { return array(koshi_hypotheses_frames, at); }
    span<const float> log_probs(std::size_t at) const noexcept { return array(koshi_hypotheses_log_probs, at); }
    span<const float> lm_scores(std::size_t at) const noexcept { return array(koshi_hypotheses_lm_scores, at); }
    span<const float> bias_scores(std::size_t at) const noexcept { return array(koshi_hypotheses_bias_scores, at); }
    double score(std::size_t at) const noexcept { return koshi_hypotheses_score(get(), at); }
    double normalised_score(std::size_t at) const noexcept { return koshi_hypotheses_normalised_score(get(), at); }
    double full_score(std::size_t at) const noexcept { return koshi_hypotheses_full_score(get(), at); }
    double posterior(std::size_t at) const noexcept { return koshi_hypotheses_posterior(get(), at); }
    bool finished(std::size_t at) const noexcept { return koshi_hypotheses_finished(get(), at) == 1; }

private:
    template <class T>
    span<const T> array(const T *(*function)(const koshi_hypotheses *, std::size_t, std::size_t *),
                        std::size_t at) const noexcept
    {
        std::size_t size = 0;
        const T *data = function(get(), at, &size);
        return {data, size};
    }
};

// A result, and whether it is all that was asked for (KOSHI_OK) or KOSHI_OK_PARTIAL.
struct found_hypotheses {
    hypotheses list;
    bool complete;
};

// The hypotheses now, and how many labels of the first can no longer change.
struct partial_hypotheses {
    hypotheses list;
    std::size_t stable_labels;
};

// Networks to be searched, by any number of streams and threads.
class transducer : public handle<koshi_transducer> {
public:
    transducer() noexcept = default;
    transducer(std::unique_ptr<networks> source, const network_sizes &sizes)
        : transducer(try_new(std::move(source), sizes).value())
    {
    }

    static koshi_transducer_config defaults() { return detail::defaults(koshi_transducer_config_init); }
    static result<transducer> try_new(std::unique_ptr<networks> source, const network_sizes &sizes)
    {
        koshi_transducer_ops ops{};
        ops.struct_size = sizeof ops;
        ops.vocab_size = sizes.vocab_size;
        ops.blank = sizes.blank;
        ops.encoder_dim = sizes.encoder_dim;
        ops.output_dim = sizes.output_dim;
        ops.scores = sizes.scores;
        ops.predict = [](void *self, const std::uint64_t *states_in, const std::int32_t *labels, std::size_t n,
                         std::uint64_t *states_out, float *outputs) {
            return guarded(self, [&](networks &source, const network_sizes &sizes) {
                source.predict({states_in, n}, {labels, n}, {states_out, n}, {outputs, n * sizes.output_dim});
            });
        };
        ops.join = [](void *self, const float *encoder_rows, const float *outputs, std::size_t n, float *scores) {
            return guarded(self, [&](networks &source, const network_sizes &sizes) {
                source.join({encoder_rows, n, sizes.encoder_dim}, {outputs, n, sizes.output_dim},
                            {scores, n * sizes.vocab_size});
            });
        };
        ops.release_state = [](void *self, koshi_transducer_part part, std::uint64_t state) {
            guarded(self, [&](networks &source, const network_sizes &) { source.release_state(part, state); });
        };
        if (sizes.language_model)
            ops.lm_predict = [](void *self, const std::uint64_t *states_in, const std::int32_t *labels, std::size_t n,
                                std::uint64_t *states_out, float *log_probs) {
                return guarded(self, [&](networks &source, const network_sizes &sizes) {
                    source.lm_predict({states_in, n}, {labels, n}, {states_out, n}, {log_probs, n * sizes.vocab_size});
                });
            };
        auto kept = std::make_unique<std::shared_ptr<state>>(std::make_shared<state>());
        (*kept)->source = std::move(source);
        (*kept)->sizes = sizes;
        transducer made;
        made.state_ = *kept;
        // From here on the library drops it, also when the call fails.
        auto status = try_call(koshi_transducer_new, static_cast<const koshi_transducer_ops *>(&ops),
                               static_cast<void *>(kept.release()),
                               koshi_drop_fn([](void *self) { delete static_cast<std::shared_ptr<state> *>(self); }),
                               made.out());
        if (!status)
            return status.failure();
        return made;
    }

    // What a member of the networks threw last, on whatever thread; nothing if none ever did.
    std::exception_ptr thrown() const
    {
        if (!state_)
            return nullptr;
        const std::lock_guard<std::mutex> lock(state_->guard);
        return state_->thrown;
    }

    // For streams and searches that begin from now on, in place of those set before.
    result<koshi_status> try_set_bias(const std::vector<phrase> &phrases) const
    {
        const std::vector<koshi_phrase> raw = detail::raw_phrases(phrases);
        return try_call(koshi_transducer_set_bias, get(), raw.data(), raw.size());
    }
    void set_bias(const std::vector<phrase> &phrases) const { try_set_bias(phrases).value(); }
    result<koshi_transducer_calls> try_call_counts() const { return detail::filled(koshi_transducer_call_counts, *this); }
    koshi_transducer_calls call_counts() const { return try_call_counts().value(); }

    // Whole utterances together; each has its own result, whatever becomes of the others.
    result<std::vector<result<found_hypotheses>>> try_search(const std::vector<rows> &utterances,
                                                             const koshi_transducer_config &config) const
    {
        std::vector<koshi_transducer_utterance> raw(utterances.size());
        std::vector<koshi_hypotheses *> made(utterances.size());
        // Owners are there before there is anything to own.
        std::vector<hypotheses> lists(utterances.size());
        std::vector<handle<koshi_error>> errors(utterances.size());
        for (std::size_t at = 0; at < raw.size(); ++at) {
            const rows &each = utterances[at];
            raw[at] = {each.data, each.frames, each.columns, each.stride, 0, 0, nullptr};
        }
        auto status = try_call(koshi_transducer_search, get(), &config, raw.data(), raw.size(),
                               sizeof(koshi_transducer_utterance), made.data());
        if (!status)
            return status.failure();
        for (std::size_t at = 0; at < raw.size(); ++at) {
            lists[at].reset(made[at]);
            errors[at].reset(raw[at].error);
        }
        std::vector<result<found_hypotheses>> found;
        found.reserve(raw.size());
        for (std::size_t at = 0; at < raw.size(); ++at) {
            if (raw[at].status < 0)
                found.emplace_back(detail::taken(raw[at].status, errors[at].release()));
            else
                found.emplace_back(found_hypotheses{std::move(lists[at]), raw[at].status == KOSHI_OK});
        }
        return found;
    }
    std::vector<result<found_hypotheses>> search(const std::vector<rows> &utterances,
                                                 const koshi_transducer_config &config) const
    {
        return try_search(utterances, config).value();
    }
    // Each item gets its own status; true if all succeeded.
    result<bool> try_advance(span<koshi_transducer_item> items) const
    {
        auto status =
            try_call(koshi_transducer_advance, get(), items.data(), items.size(), sizeof(koshi_transducer_item));
        return status ? result<bool>(status.value() == KOSHI_OK) : result<bool>(status.failure());
    }
    bool advance(span<koshi_transducer_item> items) const { return try_advance(items).value(); }

private:
    struct state {
        std::unique_ptr<networks> source;
        network_sizes sizes;
        std::mutex guard;
        std::exception_ptr thrown;
    };

    // No exception may pass through the library: it is kept.
    template <class Body>
    static koshi_status guarded(void *self, Body body) noexcept
    {
        state &kept = **static_cast<std::shared_ptr<state> *>(self);
        try {
            body(*kept.source, kept.sizes);
            return KOSHI_OK;
        } catch (...) {
            const std::lock_guard<std::mutex> lock(kept.guard);
            kept.thrown = std::current_exception();
            return KOSHI_E_CALLBACK;
        }
    }

    std::shared_ptr<state> state_;
};

// One utterance of a transducer, whose encoder rows come piece by piece.
class transducer_stream : public handle<koshi_transducer_stream> {
public:
    transducer_stream() noexcept = default;
    transducer_stream(const transducer &transducer, const koshi_transducer_config &config)
        : transducer_stream(try_new(transducer, config).value())
    {
    }
    static result<transducer_stream> try_new(const transducer &transducer, const koshi_transducer_config &config)
    {
        return try_make<transducer_stream>(koshi_transducer_stream_new,
                                           static_cast<const koshi_transducer *>(transducer.get()), &config);
    }

    result<koshi_status> try_push(const rows &rows)
    {
        return try_call(koshi_transducer_stream_push, get(), rows.data, rows.frames, rows.columns, rows.stride);
    }
    void push(const rows &rows) { try_push(rows).value(); }
    result<partial_hypotheses> try_partial() const
    {
        partial_hypotheses now{};
        auto status = try_call(koshi_transducer_stream_partial, get(), now.list.out(), &now.stable_labels);
        if (!status)
            return status.failure();
        return now;
    }
    partial_hypotheses partial() const { return try_partial().value(); }
    // Labels that all hypotheses share, each handed out once.
    result<hypotheses> try_commit() { return try_make<hypotheses>(koshi_transducer_stream_commit, get()); }
    hypotheses commit() { return try_commit().value(); }
    result<found_hypotheses> try_finish()
    {
        found_hypotheses found{};
        auto status = try_call(koshi_transducer_stream_finish, get(), found.list.out());
        if (!status)
            return status.failure();
        found.complete = status.value() == KOSHI_OK;
        return found;
    }
    found_hypotheses finish() { return try_finish().value(); }
    // From any thread, at any time.
    result<koshi_status> try_cancel() { return try_call(koshi_transducer_stream_cancel, get()); }
    void cancel() { try_cancel().value(); }
    std::int64_t num_frames() const noexcept { return koshi_transducer_stream_num_frames(get()); }
};

struct cut_example;

// An example for cross-entropy training (nnet2).
class example : public handle<koshi_example> {
public:
    example() noexcept = default;
    explicit example(const koshi_example_parts &parts) : example(try_new(parts).value()) {}
    static koshi_example_parts parts() { return detail::defaults(koshi_example_parts_init); }
    static result<example> try_new(const koshi_example_parts &parts)
    {
        return try_make<example>(koshi_example_new, &parts);
    }
    static result<example> try_from_memory(span<const std::uint8_t> bytes)
    {
        return try_make<example>(koshi_example_from_memory, bytes.data(), bytes.size());
    }
    static example from_memory(span<const std::uint8_t> bytes) { return try_from_memory(bytes).value(); }
    result<buffer> try_to_memory(bool binary) const
    {
        return try_make<buffer>(koshi_example_to_memory, get(), std::int32_t(binary));
    }
    buffer to_memory(bool binary) const { return try_to_memory(binary).value(); }

    result<koshi_example_summary> try_info() const { return detail::filled(koshi_example_info, *this); }
    koshi_example_summary info() const { return try_info().value(); }
    span<const koshi_label> labels() const noexcept { return detail::array(koshi_example_labels, *this); }
    span<const std::uint32_t> label_offsets() const noexcept
    {
        return detail::array(koshi_example_label_offsets, *this);
    }
    span<const float> speaker() const noexcept { return detail::array(koshi_example_speaker, *this); }
    rows frames() const noexcept
    {
        std::size_t count = 0, columns = 0;
        const float *data = koshi_example_frames(get(), &count, &columns);
        return {data, count, columns};
    }
    result<koshi_label> try_label(std::size_t frame) const
    {
        koshi_label found{};
        auto status = try_call(koshi_example_label, get(), frame, &found.pdf, &found.weight);
        return status ? result<koshi_label>(found) : result<koshi_label>(status.failure());
    }
    koshi_label label(std::size_t frame) const { return try_label(frame).value(); }
    result<koshi_status> try_set_label(std::size_t frame, koshi_label label)
    {
        return try_call(koshi_example_set_label, get(), frame, label.pdf, label.weight);
    }
    void set_label(std::size_t frame, koshi_label label) { try_set_label(frame, label).value(); }
    result<cut_example> try_extract(std::int32_t start_frame, std::int32_t num_frames, std::int32_t left_context,
                                    std::int32_t right_context) const;
    cut_example extract(std::int32_t start_frame, std::int32_t num_frames, std::int32_t left_context,
                        std::int32_t right_context) const;
    // Whether the parts fit together; throws what is wrong.
    result<koshi_status> try_check() const { return try_call(koshi_example_check, get()); }
    void check() const { try_check().value(); }
};

// An example that was cut out of another one, and whether all that was asked for was there.
struct cut_example {
    koshi::example example;
    bool complete;
};

inline result<cut_example> example::try_extract(std::int32_t start_frame, std::int32_t num_frames,
                                                std::int32_t left_context, std::int32_t right_context) const
{
    cut_example cut{};
    auto status = try_call(koshi_example_extract, get(), start_frame, num_frames, left_context, right_context,
                           cut.example.out());
    if (!status)
        return status.failure();
    cut.complete = status.value() == KOSHI_OK;
    return cut;
}

inline cut_example example::extract(std::int32_t start_frame, std::int32_t num_frames, std::int32_t left_context,
                                    std::int32_t right_context) const
{
    return try_extract(start_frame, num_frames, left_context, right_context).value();
}

// An example for discriminative training (nnet2).
class degs : public handle<koshi_degs> {
public:
    using handle::handle;
    explicit degs(const koshi_degs_parts &parts) : degs(try_new(parts).value()) {}
    static koshi_degs_parts parts() { return detail::defaults(koshi_degs_parts_init); }
    static result<degs> try_new(const koshi_degs_parts &parts) { return try_make<degs>(koshi_degs_new, &parts); }
    static result<degs> try_from_memory(span<const std::uint8_t> bytes)
    {
        return try_make<degs>(koshi_degs_from_memory, bytes.data(), bytes.size());
    }
    static degs from_memory(span<const std::uint8_t> bytes) { return try_from_memory(bytes).value(); }
    result<buffer> try_to_memory(bool binary) const
    {
        return try_make<buffer>(koshi_degs_to_memory, get(), std::int32_t(binary));
    }
    buffer to_memory(bool binary) const { return try_to_memory(binary).value(); }
    degs share() const noexcept { return detail::shared(*this); }

    result<koshi_degs_summary> try_info() const { return detail::filled(koshi_degs_info, *this); }
    koshi_degs_summary info() const { return try_info().value(); }
    float weight() const noexcept { return koshi_degs_weight(get()); }
    span<const std::int32_t> alignment() const noexcept { return detail::array(koshi_degs_alignment, *this); }
    span<const float> speaker() const noexcept { return detail::array(koshi_degs_speaker, *this); }
    rows frames() const noexcept
    {
        std::size_t count = 0, columns = 0;
        const float *data = koshi_degs_frames(get(), &count, &columns);
        return {data, count, columns};
    }
    result<koshi::lattice> try_lattice() const { return try_make<koshi::lattice>(koshi_degs_lattice, get()); }
    koshi::lattice lattice() const { return try_lattice().value(); }
    // Whether the parts fit together; throws what is wrong.
    result<koshi_status> try_check() const { return try_call(koshi_degs_check, get()); }
    void check() const { try_check().value(); }
};

// Numbers in rows.
class matrix : public handle<koshi_matrix> {
public:
    using handle::handle;
    matrix share() const noexcept { return detail::shared(*this); }

    koshi::rows rows() const noexcept
    {
        std::size_t frames = 0, columns = 0;
        const float *data = koshi_matrix_data(get(), &frames, &columns);
        return {data, frames, columns};
    }
};

// An entry of a table.
template <class Value>
struct entry {
    std::string key;
    Value value;
};

namespace detail {

// The next entry of a table by a function that writes key and value; nothing behind the last one.
template <class Value, class Function, class Reader>
result<std::optional<entry<Value>>> next_entry(Function function, Reader *reader)
{
    const char *key = nullptr;
    Value value;
    auto status = try_call(function, reader, &key, value.out());
    if (!status)
        return status.failure();
    if (key == nullptr)
        return std::optional<entry<Value>>();
    return std::optional<entry<Value>>(entry<Value>{key, std::move(value)});
}

// A table that is read entry by entry.
template <class Self, class Value, class Reader, auto Open, auto Next>
class reader : public handle<Reader> {
public:
    using handle<Reader>::handle;
    explicit reader(const std::string &rspecifier) : reader(std::move(try_open(rspecifier).value())) {}
    static result<Self> try_open(const std::string &rspecifier) { return try_make<Self>(Open, rspecifier.c_str()); }

    // Nothing behind the last entry.
    result<std::optional<entry<Value>>> try_next()
    {
        return next_entry<Value>(Next, this->get());
    }
    std::optional<entry<Value>> next() { return try_next().value(); }
};

// A table that is written entry by entry.
template <class Self, class Writer, auto Open, auto Close>
class writer : public handle<Writer> {
public:
    using handle<Writer>::handle;
    explicit writer(const std::string &wspecifier) : writer(std::move(try_open(wspecifier).value())) {}
    static result<Self> try_open(const std::string &wspecifier) { return try_make<Self>(Open, wspecifier.c_str()); }

    // Only this tells of a failure of the last writes.
    result<koshi_status> try_close() { return try_call(Close, this->get()); }
    void close() { try_close().value(); }
};

} // namespace detail

class matrix_reader : public detail::reader<matrix_reader, matrix, koshi_matrix_reader, koshi_matrix_reader_open,
                                            koshi_matrix_reader_next> {
public:
    using reader::reader;
};

class lattice_reader : public detail::reader<lattice_reader, lattice, koshi_lattice_reader, koshi_lattice_reader_open,
                                             koshi_lattice_reader_next> {
public:
    using reader::reader;
};

class lattice_writer : public detail::writer<lattice_writer, koshi_lattice_writer, koshi_lattice_writer_open,
                                             koshi_lattice_writer_close> {
public:
    using writer::writer;
    result<koshi_status> try_write(const std::string &key, const lattice &value)
    {
        return try_call(koshi_lattice_writer_write, get(), key.c_str(), value.get());
    }
    void write(const std::string &key, const lattice &value) { try_write(key, value).value(); }
};

class int_writer : public detail::writer<int_writer, koshi_int_writer, koshi_int_writer_open, koshi_int_writer_close> {
public:
    using writer::writer;
    result<koshi_status> try_write(const std::string &key, span<const std::int32_t> values)
    {
        return try_call(koshi_int_writer_write, get(), key.c_str(), values.data(), values.size());
    }
    void write(const std::string &key, span<const std::int32_t> values) { try_write(key, values).value(); }
};

// A table of training examples of one kind, read entry by entry.
class egs_reader : public handle<koshi_egs_reader> {
public:
    using handle::handle;
    egs_reader(const std::string &rspecifier, koshi_egs_kind kind) : egs_reader(try_open(rspecifier, kind).value()) {}
    static result<egs_reader> try_open(const std::string &rspecifier, koshi_egs_kind kind)
    {
        return try_make<egs_reader>(koshi_egs_reader_open, rspecifier.c_str(), std::int32_t(kind));
    }

    // Nothing behind the last entry.
    result<std::optional<entry<example>>> try_next()
    {
        return detail::next_entry<example>(koshi_egs_reader_next, get());
    }
    std::optional<entry<example>> next() { return try_next().value(); }
    result<std::optional<entry<degs>>> try_next_degs()
    {
        return detail::next_entry<degs>(koshi_egs_reader_next_degs, get());
    }
    std::optional<entry<degs>> next_degs() { return try_next_degs().value(); }
};

// A table of training examples of one kind, asked for by key.
class egs_table : public handle<koshi_egs_table> {
public:
    using handle::handle;
    egs_table(const std::string &rspecifier, koshi_egs_kind kind) : egs_table(try_open(rspecifier, kind).value()) {}
    static result<egs_table> try_open(const std::string &rspecifier, koshi_egs_kind kind)
    {
        return try_make<egs_table>(koshi_egs_table_open, rspecifier.c_str(), std::int32_t(kind));
    }

    // Nothing where the table does not have the key.
    result<std::optional<example>> try_find(const std::string &key)
    {
        return found(try_make<example>(koshi_egs_table_find, get(), key.c_str()));
    }
    std::optional<example> find(const std::string &key) { return try_find(key).value(); }
    result<std::optional<degs>> try_find_degs(const std::string &key)
    {
        return found(try_make<degs>(koshi_egs_table_find_degs, get(), key.c_str()));
    }
    std::optional<degs> find_degs(const std::string &key) { return try_find_degs(key).value(); }

private:
    template <class Value>
    static result<std::optional<Value>> found(result<Value> made)
    {
        if (!made)
            return made.failure();
        return made.value() ? std::optional<Value>(std::move(made).value()) : std::nullopt;
    }
};

// A table of training examples of one kind, written entry by entry.
class egs_writer : public handle<koshi_egs_writer> {
public:
    using handle::handle;
    egs_writer(const std::string &wspecifier, koshi_egs_kind kind) : egs_writer(try_open(wspecifier, kind).value()) {}
    static result<egs_writer> try_open(const std::string &wspecifier, koshi_egs_kind kind)
    {
        return try_make<egs_writer>(koshi_egs_writer_open, wspecifier.c_str(), std::int32_t(kind));
    }

    result<koshi_status> try_write(const std::string &key, const example &value)
    {
        return try_call(koshi_egs_writer_write, get(), key.c_str(), value.get());
    }
    void write(const std::string &key, const example &value) { try_write(key, value).value(); }
    result<koshi_status> try_write(const std::string &key, const degs &value)
    {
        return try_call(koshi_egs_writer_write_degs, get(), key.c_str(), value.get());
    }
    void write(const std::string &key, const degs &value) { try_write(key, value).value(); }
    // Only this tells of a failure of the last writes.
    result<koshi_status> try_close() { return try_call(koshi_egs_writer_close, get()); }
    void close() { try_close().value(); }
};

// Where some threads leave examples and others fetch them.
class examples_repository : public handle<koshi_examples_repository> {
public:
    using handle::handle;
    explicit examples_repository(std::size_t capacity) : examples_repository(try_new(capacity).value()) {}
    static result<examples_repository> try_new(std::size_t capacity)
    {
        return try_make<examples_repository>(koshi_examples_repository_new, capacity);
    }

    // Waits for room. `examples` is empty after a success, and as it was after a failure.
    result<koshi_status> try_accept(std::vector<example> &examples) const
    {
        std::vector<koshi_example *> raw;
        raw.reserve(examples.size());
        for (const example &each : examples)
            raw.push_back(each.get());
        auto status = try_call(koshi_examples_repository_accept, get(), raw.data(), raw.size());
        if (status) {
            for (example &each : examples)
                each.release();
            examples.clear();
        }
        return status;
    }
    void accept(std::vector<example> &examples) const { try_accept(examples).value(); }
    // Waits for the first; none come any more where the answer is empty.
    result<std::vector<example>> try_provide(std::size_t most) const
    {
        std::vector<koshi_example *> raw(most);
        std::vector<example> given(most);
        std::size_t count = 0;
        auto status = try_call(koshi_examples_repository_provide, get(), raw.data(), most, &count);
        if (!status)
            return status.failure();
        given.resize(count);
        for (std::size_t at = 0; at < count; ++at)
            given[at].reset(raw[at]);
        return given;
    }
    std::vector<example> provide(std::size_t most) const { return try_provide(most).value(); }
    result<koshi_status> try_done() const { return try_call(koshi_examples_repository_done, get()); }
    void done() const { try_done().value(); }
    result<koshi_status> try_cancel() const { return try_call(koshi_examples_repository_cancel, get()); }
    void cancel() const { try_cancel().value(); }
};

// Whether names of tables and files may be commands, in the whole process.
inline result<koshi_status> try_allow_commands(bool allow)
{
    return try_call(koshi_tables_allow_commands, std::int32_t(allow));
}
inline void allow_commands(bool allow) { try_allow_commands(allow).value(); }

// GPUs that can be used, and why there is none.
inline std::int32_t cuda_device_count() noexcept { return koshi_cuda_device_count(); }
inline std::string_view cuda_why_not() noexcept { return koshi_cuda_why_not(); }
inline result<koshi_cuda_device> try_cuda_device_info(std::int32_t index)
{
    koshi_cuda_device info{};
    auto status = try_call(koshi_cuda_device_info, index, &info, sizeof info);
    return status ? result<koshi_cuda_device>(info) : result<koshi_cuda_device>(status.failure());
}
inline koshi_cuda_device cuda_device_info(std::int32_t index) { return try_cuda_device_info(index).value(); }

// Takes what the library logs, from any thread; what it throws is dropped.
using log_function = std::function<void(koshi_log_level level, std::string_view target, std::string_view message)>;

inline result<koshi_status> try_log_to(log_function function, koshi_log_level max_level)
{
    if (!function)
        return try_call(koshi_log_set, koshi_log_fn(nullptr), static_cast<void *>(nullptr), koshi_drop_fn(nullptr),
                        std::int32_t(KOSHI_LOG_OFF));
    auto *kept = new log_function(std::move(function));
    const koshi_log_fn pass_on = [](void *self, std::int32_t level, const char *target, const char *message) {
        try {
            (*static_cast<log_function *>(self))(koshi_log_level(level), target, message);
        } catch (...) {
        }
    };
    const koshi_drop_fn drop = [](void *self) { delete static_cast<log_function *>(self); };
    return try_call(koshi_log_set, pass_on, static_cast<void *>(kept), drop, std::int32_t(max_level));
}
inline void log_to(log_function function, koshi_log_level max_level)
{
    try_log_to(std::move(function), max_level).value();
}

} // namespace koshi

#endif // KOSHI_HPP

/*
 * Koshi: speech decoding over weighted finite-state graphs.
 * Licence: Apache-2.0. This file is generated; do not edit it.
 *
 * Names. koshi_<type>_<verb>: `new` makes, `read` loads a file, `from_memory` loads bytes, `ref` and
 * `free` count, `init` fills a struct of the caller's with defaults. Costs are negative natural logs.
 *
 * Handles. Objects are known by handles, which look like pointers and are none: never follow one.
 * NULL, stale, doubly freed, foreign or invented handles are answered with KOSHI_E_HANDLE. Objects
 * that never change are counted: koshi_<type>_ref adds a count and returns the handle, and
 * koshi_<type>_free takes one back. An object keeps alive what it was made from, so handles may be
 * freed in any order, also while another thread is inside a call with them: that call ends normally.
 * koshi_<type>_free(NULL) is fine.
 *
 * Errors. A function that can fail returns a koshi_status and takes a last parameter `err`, which
 * may be NULL. Zero and above is success. On failure, and only then, *err gets a koshi_error that the
 * caller frees (NULL if not even that could be made). Results are written on success only. Plain
 * queries answer -1, NULL or NaN for a bad handle or index. Nothing is kept by thread, nothing is
 * printed, and no call ends the process.
 *
 * Memory of the caller (rows, texts, structs) is used during the call only, unless its function says
 * otherwise. Texts are UTF-8 and end with NUL. Strides count elements; what lies between rows is
 * never read. Arrays and texts that the library hands out are its own memory, not copies: they live
 * as long as the handle they were asked of, and are not to be written to or freed.
 *
 * Structs whose first field is `struct_size` may grow in later versions, at the end. Let
 * koshi_<type>_init(&x, sizeof x) fill those that you pass in, and then set what you want changed;
 * pass sizeof x with those that the library fills. A program and a library of different versions
 * then work together: an older program gets the behaviour that it knows, and a newer one
 * KOSHI_E_UNSUPPORTED if it sets what the library does not have.
 *
 * Threads. Any handle may be used from any thread. Calls that take `const T *` may run together on
 * one handle. A call that takes `T *` needs that handle for itself: while it runs, another call on
 * the same handle answers KOSHI_E_BUSY and does nothing. What different handles do never mixes.
 *
 * Callbacks take their `user_data` first and come with an optional `drop`, which runs exactly once,
 * also when the call that was given both fails. They run without locks of the library held and may
 * call the library; calls on the handle that is running them get KOSHI_E_BUSY. They must return: no
 * longjmp and no C++ exception may leave them. The free function of the object that was given them
 * waits for one that runs on another thread; from inside a callback it returns at once, and no
 * further one follows.
 *
 * Floating point. Calls run in the default floating-point environment whatever the caller has set
 * (flush to zero, rounding), and put the caller's back.
 */


#ifndef KOSHI_H
#define KOSHI_H

#include <stddef.h>
#include <stdint.h>

// Major version of this header.
#define KOSHI_VERSION_MAJOR 0

// Minor version of this header.
#define KOSHI_VERSION_MINOR 1

// Patch version of this header.
#define KOSHI_VERSION_PATCH 0

// Which network a state belongs to.
enum koshi_transducer_part
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // The prediction network.
    KOSHI_TRANSDUCER_PREDICTOR = 0,
    // The language model.
    KOSHI_TRANSDUCER_LM = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum koshi_transducer_part koshi_transducer_part;
#else
typedef int32_t koshi_transducer_part;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The values of a koshi_status. The hundreds say what to do; new values are only ever added, so treat
// an unknown one by its hundred.
// -1xx: change the program. -2xx: look at the input. -3xx: this utterance stops here; what came
// before can be fetched, and the channel can begin anew. -4xx: ask for less, or wait. -5xx: look at
// the machine. -6xx: it was your own code or wish. -7xx: a fault of the library; please report it.
enum koshi_status_code
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Done. Empty results are KOSHI_OK too.
    KOSHI_OK = 0,
    // Done, with less than was asked for (smaller effective beam, no alignment).
    KOSHI_OK_PARTIAL = 1,
    // An argument is outside its domain: null, misaligned, a bad name.
    KOSHI_E_ARGUMENT = -101,
    // A handle is null, unknown, freed before, of another type, or poisoned by KOSHI_E_INTERNAL.
    KOSHI_E_HANDLE = -102,
    // The handle is in use by another call, or by the one that runs the callback.
    KOSHI_E_BUSY = -103,
    // The call does not fit the state of its object, as a push after finish.
    KOSHI_E_STATE = -104,
    // An option is outside its range, or two options contradict each other.
    KOSHI_E_CONFIG = -105,
    // Something known and not handled by this version, named in the message.
    KOSHI_E_UNSUPPORTED = -106,
    // The operating system refused an operation on a file or pipe.
    KOSHI_E_IO = -201,
    // Bytes of a file do not have the form that they should.
    KOSHI_E_FORMAT = -202,
    // The graph cannot be searched: no start state, epsilon cycle, label out of range.
    KOSHI_E_GRAPH = -203,
    // Dimensions do not agree.
    KOSHI_E_SHAPE = -204,
    // A log-likelihood is NaN or +inf.
    KOSHI_E_SCORES = -301,
    // No token survived a frame.
    KOSHI_E_NO_TOKENS = -302,
    // Even the tied best of a frame do not fit a capacity.
    KOSHI_E_CAPACITY = -303,
    // A queue is full; try again when it has drained.
    KOSHI_E_FULL = -401,
    // A limit that the caller set, or one of the library, is reached.
    KOSHI_E_LIMIT = -402,
    // Memory could not be had.
    KOSHI_E_NO_MEMORY = -403,
    // No usable GPU; the message says why.
    KOSHI_E_NO_DEVICE = -501,
    // The GPU or its driver reported a failure.
    KOSHI_E_DEVICE = -502,
    // A callback of the caller reported failure.
    KOSHI_E_CALLBACK = -601,
    // The work was cancelled by the caller.
    KOSHI_E_CANCELLED = -602,
    // A fault of the library itself. The handles that the call could change accept only their
    // free function from then on.
    KOSHI_E_INTERNAL = -701,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum koshi_status_code koshi_status_code;
#else
typedef int32_t koshi_status_code;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// How much a log message matters.
enum koshi_log_level
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // As a greatest level: nothing at all.
    KOSHI_LOG_OFF = 0,
    // Something failed that no status could tell.
    KOSHI_LOG_ERROR = 1,
    // Something is not as it should be, and the work goes on.
    KOSHI_LOG_WARN = 2,
    // What the library chose and why, once an object.
    KOSHI_LOG_INFO = 3,
    // For those who look for a fault.
    KOSHI_LOG_DEBUG = 4,
    // Everything.
    KOSHI_LOG_TRACE = 5,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum koshi_log_level koshi_log_level;
#else
typedef int32_t koshi_log_level;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Where a decoder computes.
enum koshi_backend
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // The GPU if one is usable, else the CPU.
    KOSHI_BACKEND_AUTO = 0,
    // The CPU.
    KOSHI_BACKEND_CPU = 1,
    // The GPU, or KOSHI_E_NO_DEVICE.
    KOSHI_BACKEND_CUDA = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum koshi_backend koshi_backend;
#else
typedef int32_t koshi_backend;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What the list of silence labels is of.
enum koshi_silence
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Phones: frames whose transition-id is of one of them are silence. The graph must have been read
    // with its transition model.
    KOSHI_SILENCE_PHONES = 0,
    // Input labels: frames with one of them are silence.
    KOSHI_SILENCE_ILABELS = 1,
    // Output labels: frames from the start of such a word to the next word are silence, and frames before
    // the first word.
    KOSHI_SILENCE_OLABELS = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum koshi_silence koshi_silence;
#else
typedef int32_t koshi_silence;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What is done at an end point.
enum koshi_endpoint_action
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // It is noted for koshi_channel_endpoint, and the search goes on.
    KOSHI_ENDPOINT_NOTE = 0,
    // The push stops behind the frame of the end point and answers KOSHI_OK_PARTIAL if rows are left:
    // lattice and best path are then those up to the end point. The next push goes on behind it, or
    // koshi_channel_begin begins anew with the rows that are left.
    // Rows that are queued (koshi_channel_submit) are searched on when the listener's endpoint has returned;
    // a begin forgets them, so where none may be lost take KOSHI_ENDPOINT_SEGMENT.
    KOSHI_ENDPOINT_STOP = 1,
    // The utterance is closed there as a segment whose results koshi_channel_segment gives, and the
    // next frame begins a new one, in the same push; no frame is lost. What is asked of the channel is
    // then about the open segment, with times of words still counted from koshi_channel_begin.
    KOSHI_ENDPOINT_SEGMENT = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum koshi_endpoint_action koshi_endpoint_action;
#else
typedef int32_t koshi_endpoint_action;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Where the matrices of a call are: network output and derivatives, all of them.
enum koshi_memory
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // In the memory of the host.
    KOSHI_MEMORY_HOST = 0,
    // In memory that the GPU can read and write. Pointers to floats are then addresses of the device,
    // CUdeviceptr, and are never read by the host.
    KOSHI_MEMORY_DEVICE = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum koshi_memory koshi_memory;
#else
typedef int32_t koshi_memory;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// Kaldi's two forms of a lattice in a file.
enum koshi_lattice_format
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // An OpenFst vector FST.
    KOSHI_LATTICE_BINARY = 0,
    // Lines of text.
    KOSHI_LATTICE_TEXT = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum koshi_lattice_format koshi_lattice_format;
#else
typedef int32_t koshi_lattice_format;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// How far an alignment came.
enum koshi_alignment
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Every arc is one word, or silence.
    KOSHI_ALIGNMENT_COMPLETE = 0,
    // Aligned, but paths end within a word or within silence.
    KOSHI_ALIGNMENT_PARTIAL_WORDS = 1,
    // Not aligned: the lattice is as it was.
    KOSHI_ALIGNMENT_NONE = 2,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum koshi_alignment koshi_alignment;
#else
typedef int32_t koshi_alignment;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// How a matrix is compressed; the numbers are Kaldi's.
enum koshi_compression
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // A byte an element between percentiles of its column for more than 8 rows, else two bytes.
    KOSHI_COMPRESSION_AUTO = 1,
    // A byte an element between percentiles of its column.
    KOSHI_COMPRESSION_SPEECH_FEATURE = 2,
    // Two bytes an element between the least and the greatest.
    KOSHI_COMPRESSION_TWO_BYTE_AUTO = 3,
    // Whole numbers from -32768 to 32767.
    KOSHI_COMPRESSION_TWO_BYTE_SIGNED = 4,
    // A byte an element between the least and the greatest.
    KOSHI_COMPRESSION_ONE_BYTE_AUTO = 5,
    // Whole numbers from 0 to 255.
    KOSHI_COMPRESSION_ONE_BYTE_UNSIGNED = 6,
    // Numbers from 0 to 1 in 255 steps.
    KOSHI_COMPRESSION_ONE_BYTE_ZERO_ONE = 7,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum koshi_compression koshi_compression;
#else
typedef int32_t koshi_compression;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What a table holds.
enum koshi_egs_kind
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Examples for cross-entropy training: koshi_example.
    KOSHI_EGS_NNET = 0,
    // Examples for discriminative training: koshi_degs.
    KOSHI_EGS_DISCRIMINATIVE = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum koshi_egs_kind koshi_egs_kind;
#else
typedef int32_t koshi_egs_kind;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The searches of a transducer.
enum koshi_transducer_method
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // The best symbol of each frame. Its score counts labels alone. Without language model and phrases.
    KOSHI_TRANSDUCER_GREEDY = 0,
    // The beam search of Graves (2012) without merging of prefixes: equal labels may stand twice.
    KOSHI_TRANSDUCER_DEFAULT = 1,
    // Time-synchronous decoding.
    KOSHI_TRANSDUCER_TSD = 2,
    // Alignment-length synchronous decoding.
    KOSHI_TRANSDUCER_ALSD = 3,
    // N-step constrained beam search.
    KOSHI_TRANSDUCER_NSC = 4,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum koshi_transducer_method koshi_transducer_method;
#else
typedef int32_t koshi_transducer_method;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// What a joint network answers.
enum koshi_transducer_scores
#if defined(__cplusplus) || __STDC_VERSION__ >= 202311L
  : int32_t
#endif // defined(__cplusplus) || __STDC_VERSION__ >= 202311L
 {
    // Any numbers below +inf: the library takes the log-softmax over the vocabulary.
    KOSHI_TRANSDUCER_LOGITS = 0,
    // Natural logs of probabilities, used as they are.
    KOSHI_TRANSDUCER_LOG_PROBS = 1,
};
#ifndef __cplusplus
#if __STDC_VERSION__ >= 202311L
typedef enum koshi_transducer_scores koshi_transducer_scores;
#else
typedef int32_t koshi_transducer_scores;
#endif // __STDC_VERSION__ >= 202311L
#endif // __cplusplus

// The pronunciations of words. Immutable and counted.
typedef struct koshi_align_lexicon koshi_align_lexicon;

// Bytes that the library made. Immutable and counted.
typedef struct koshi_buffer koshi_buffer;

// One utterance at a time: new, then open from koshi_channel_begin to koshi_channel_finish, then finished
// until the next begin. Cheap when idle. One call at a time may change it. Rows are searched by the thread
// that pushes them (koshi_channel_push, koshi_channel_advance), or queued and searched by a thread of the
// decoder's (koshi_channel_submit); calls on the channel then wait while it is searched, a chunk of rows, and
// see it as it is behind that.
typedef struct koshi_channel koshi_channel;

// A source of log-likelihoods for koshi_channel_advance. One call at a time may use it.
typedef struct koshi_decodable koshi_decodable;

// A graph, options, and the lanes that search it for any number of channels.
typedef struct koshi_decoder koshi_decoder;

// An example for discriminative training (Kaldi's DiscriminativeNnetExample of nnet2): an alignment, the
// lattice that it is held against, and features for its frames and those around them. Immutable and
// counted.
typedef struct koshi_degs koshi_degs;

// The denominator graph of chain training: all that could have been said. It keeps working memory and
// threads from call to call; calls on it may run together. Immutable and counted.
typedef struct koshi_den_graph koshi_den_graph;

// A table of examples that is read from its first entry to its last. One call at a time may use it.
typedef struct koshi_egs_reader koshi_egs_reader;

// A table of examples that are asked for by their keys. One call at a time may use it.
typedef struct koshi_egs_table koshi_egs_table;

// A table of examples being written. One call at a time may use it.
typedef struct koshi_egs_writer koshi_egs_writer;

// Why a call failed: a status, one line of text, and the chain of causes. Immutable and counted.
typedef struct koshi_error koshi_error;

// An example for cross-entropy training (Kaldi's NnetExample of nnet2): labelled frames, and features for
// them and the frames around them. Row left_context + f of the features belongs to labelled frame f.
typedef struct koshi_example koshi_example;

// A bounded place where some threads leave examples and others fetch them (Kaldi's
// ExamplesRepository of nnet2, for any number of threads on both sides). Its calls may run together.
typedef struct koshi_examples_repository koshi_examples_repository;

// A decoding graph, ready to be searched. Immutable and counted.
typedef struct koshi_graph koshi_graph;

// An n-best list of a transducer search, best first. Immutable and counted.
typedef struct koshi_hypotheses koshi_hypotheses;

// A table of lists of 32-bit integers (words, alignments) being written. One call at a time may use
// it.
typedef struct koshi_int_writer koshi_int_writer;

// A language model over word ids: n-grams with backoff, or a grammar FST. Immutable and counted.
typedef struct koshi_language_model koshi_language_model;

// A lattice: state 0 is the start, every arc leads to a higher state, and every state lies on a
// path from the start to a final state. Raw (one arc a graph arc) or compact (words with strings
// of transition-ids). Without any path it has no states. Immutable and counted.
typedef struct koshi_lattice koshi_lattice;

// A table of lattices, raw or compact. One call at a time may use it.
typedef struct koshi_lattice_reader koshi_lattice_reader;

// A table of lattices being written. One call at a time may use it.
typedef struct koshi_lattice_writer koshi_lattice_writer;

// A matrix of binary32 numbers. Immutable and counted.
typedef struct koshi_matrix koshi_matrix;

// A table of matrices, compressed ones too. One call at a time may use it.
typedef struct koshi_matrix_reader koshi_matrix_reader;

// One path through a graph or lattice. Immutable and counted.
typedef struct koshi_path koshi_path;

// The best paths of a lattice, the best first, no two of the same words. Immutable and counted.
typedef struct koshi_paths koshi_paths;

// A supervision object of chain training: for a batch of sequences, the pdfs that may stand in each frame.
// Immutable and counted.
typedef struct koshi_supervision koshi_supervision;

// A table of symbols and their ids. Immutable and counted.
typedef struct koshi_symbols koshi_symbols;

// The networks of a transducer (RNN-T), to be searched. Calls that take it const may run together.
typedef struct koshi_transducer koshi_transducer;

// One utterance of a transducer, whose encoder rows come piece by piece. One call at a time may change it.
typedef struct koshi_transducer_stream koshi_transducer_stream;

// A transition model: what the input labels of a graph stand for. Transition-ids count from 1, pdfs
// from 0. Immutable and counted.
typedef struct koshi_transitions koshi_transitions;

// Which phones begin and end words. Immutable and counted.
typedef struct koshi_word_boundary koshi_word_boundary;

// The words of an utterance with times and confidences, and what competes with them. Immutable and
// counted.
typedef struct koshi_words koshi_words;

// What a call answers: a koshi_status_code. Zero and above is success.
typedef int32_t koshi_status;

// Takes a log message: a level, the part of the library that speaks, and one line of UTF-8,
// both valid for the call only. Runs on whichever thread has something to say, possibly on
// several at once. What the callback itself causes to be logged is dropped.
typedef void (*koshi_log_fn)(void *user_data, int32_t level, const char *target, const char *message);

// Called once when the library will never use `user_data` again. May be NULL.
typedef void (*koshi_drop_fn)(void *user_data);

// A GPU. Filled by koshi_cuda_device_info.
typedef struct {
    // Bytes that were filled.
    uint32_t struct_size;
    // Compute capability, the number before the dot.
    uint32_t compute_major;
    // Compute capability, the number behind the dot.
    uint32_t compute_minor;
    // Streaming multiprocessors.
    uint32_t multiprocessors;
    // Bytes of device memory.
    uint64_t total_memory;
    // Name of the model. Lives as long as the library.
    const char *name;
    // Latest CUDA version that the driver speaks, as 13000 for 13.0.
    uint32_t driver_version;
    // Always 0.
    uint32_t reserved;
} koshi_cuda_device;

// Figures of a graph. Arcs and final costs of +inf are as good as absent; they count in
// num_arcs, num_epsilon_arcs, num_infinite_arcs and the labels only.
typedef struct {
    // Bytes that were filled.
    uint32_t struct_size;
    // States.
    uint32_t num_states;
    // Arcs, epsilon ones included.
    uint32_t num_arcs;
    // Arcs with ilabel 0.
    uint32_t num_epsilon_arcs;
    // Arcs with a weight of +inf.
    uint32_t num_infinite_arcs;
    // Final states.
    uint32_t num_finals;
    // States that no path from the start reaches.
    uint32_t num_unreachable;
    // States from which no path leads to a final state.
    uint32_t num_dead_ends;
    // Arcs of the longest path of epsilon arcs.
    uint32_t max_level;
    // The largest input label, 0 if there is none.
    int32_t max_ilabel;
    // The largest output label, 0 if there is none.
    int32_t max_olabel;
    // Least number of columns that a row of log-likelihoods must have.
    uint32_t num_columns;
    // Bytes in memory.
    uint64_t memory;
} koshi_graph_summary;

// The callbacks of a decodable. Columns count from 0. All run on the thread that calls
// koshi_channel_advance, one at a time. A negative answer is a koshi_status of the callback's
// choice; it ends that call with KOSHI_E_CALLBACK and leaves the channel as it was before the frame.
// Either of the first two may be NULL; the others must be there.
typedef struct {
    // sizeof this struct.
    uint32_t struct_size;
    // Must be 0.
    uint32_t reserved;
    // Writes the log-likelihood of column `index` at `frame` to *out. Used where there is no
    // frame_log_likelihoods: at most once a column and frame, and only for columns that the search
    // needs.
    koshi_status (*log_likelihood)(void *user_data, int64_t frame, int32_t index, float *out);
    // Writes all `dim` log-likelihoods of `frame` to `row`, which is the library's and valid for
    // the call only. Preferred.
    koshi_status (*frame_log_likelihoods)(void *user_data, int64_t frame, float *row, size_t dim);
    // Answers how many frames can be asked for now. Never falls.
    int64_t (*num_frames_ready)(void *user_data);
    // Answers 1 if `frame` is the last of the utterance, else 0.
    int32_t (*is_last_frame)(void *user_data, int64_t frame);
    // Answers the number of columns. Asked once a call of koshi_channel_advance. More than 2^24 are
    // KOSHI_E_LIMIT, unless the graph reads as many.
    int32_t (*num_indices)(void *user_data);
} koshi_decodable_ops;

// The options of a decoder. Where 0 stands for no bound it says so.
typedef struct {
    // sizeof this struct.
    uint32_t struct_size;
    // Where to compute: a koshi_backend. Default KOSHI_BACKEND_AUTO.
    int32_t backend;
    // Index of the GPU. Default 0.
    uint32_t device;
    // Tokens within this cost of the best may emit. Finite, above 0. Default 15.
    float beam;
    // Links within this cost of the best path are in the lattice. Finite, above 0. Default 10.
    float lattice_beam;
    // At most about this many tokens emit (ties stay in). At least 2. Default 10000.
    uint32_t max_active;
    // While there are no more tokens than this, all emit. At most max_active. Default 200.
    uint32_t min_active;
    // Added to the cutoff for the beam of the next frame where max_active or min_active set it.
    // Finite, above 0. Default 0.5.
    float beam_delta;
    // Multiplies log-likelihoods. Finite. Default 1.
    float acoustic_scale;
    // Links held before they are pruned where lattice_beam is at most 6; for wider ones (lattice_beam / 6)^2
    // times as many, at most three times. Results do not depend on it. At least 1. Default 80000.
    uint32_t link_budget;
    // Channels that are advanced at the same time: 1 to 65536. Default by the machine.
    uint32_t num_lanes;
    // Threads over which a batch is spread, or on a GPU the host's part of it: 1 to 1024. Default by the
    // machine.
    uint32_t num_threads;
    // Channels that may exist at the same time; 0 for no bound. Default 0.
    uint32_t max_channels;
    // Must be 0.
    uint32_t reserved;
    // Seconds from one row to the next, subsampling included. Finite, above 0. Default 0.01.
    double frame_shift;
    // Most frames of an utterance; 0 for no bound. Default 0.
    uint64_t max_frames;
    // Most candidates of a frame; 0 for no bound on the CPU. Default 0.
    uint64_t candidate_capacity;
    // Most tokens of a frame; 0 for no bound on the CPU. Default 0.
    uint64_t token_capacity;
    // Most links of a frame; 0 for no bound on the CPU. Default 0.
    uint64_t link_capacity;
    // Most bytes that tokens, links, trace and phrases of a channel may take; 0 for no bound. Default 0.
    uint64_t memory_limit;
    // Frames that the queue of a channel holds (koshi_channel_submit). At least 1. Default 4096.
    uint32_t queue_frames;
    // Most frames of one channel in a batch of queued rows: how long a channel with many may hold up the
    // others. Results do not depend on it. At least 1. Default 32.
    uint32_t chunk_frames;
    // Seconds that a batch of queued rows waits for more channels once there is one, while there are fewer
    // than num_lanes. Without effect on the CPU, where each thread searches one channel at a time. 0 to 10.
    // Default 0.
    double max_batch_wait;
} koshi_decoder_config;

// What a decoder is like.
typedef struct {
    // Bytes that were filled.
    uint32_t struct_size;
    // Where it computes: KOSHI_BACKEND_CPU or KOSHI_BACKEND_CUDA.
    int32_t backend;
    // Channels that are advanced at the same time.
    uint32_t num_lanes;
    // Threads over which a batch is spread on the CPU.
    uint32_t num_threads;
    // Channels that exist now.
    uint32_t num_channels;
    // Least number of columns that a row of log-likelihoods must have.
    uint32_t num_columns;
    // Bytes of working space that no channel uses now.
    uint64_t memory;
    // Why it does not compute on a GPU, in one line; empty if it does. Lives as long as the decoder.
    const char *why_not_cuda;
} koshi_decoder_summary;

// Rows for one channel of koshi_decoder_advance, and what became of them.
typedef struct {
    // The channel.
    koshi_channel *channel;
    // Its next rows, as for koshi_channel_push.
    const float *rows;
    // Number of rows.
    size_t frames;
    // Number of columns.
    size_t dim;
    // Elements from one row to the next.
    size_t stride;
    // Result: what koshi_channel_push would have answered.
    koshi_status status;
    // Must be 0.
    uint32_t reserved;
} koshi_decoder_item;

// A phrase that is made more likely.
typedef struct {
    // Its labels: for a channel output labels (words) of the graph, all above 0; for a transducer
    // labels of its vocabulary but the blank.
    const int32_t *labels;
    // Number of labels, at least 1.
    size_t len;
    // Added to a score, or taken off a cost, each time that the phrase is completed; finite, and 1e30
    // at most over all phrases, whatever their signs. After k of its n labels k/n of it is held, and
    // given back when it is not completed. Below 0, for channels only, the phrase is made less likely,
    // and nothing of it is held before it is complete.
    float bonus;
    // Must be 0.
    uint32_t reserved;
} koshi_phrase;

// Counts of a channel since koshi_channel_begin, over all its segments. They are of the channel alone,
// whatever its neighbours do.
typedef struct {
    // Bytes that were filled.
    uint32_t struct_size;
    // Least beam that was in force for a frame; +inf before any.
    float effective_beam;
    // Frames searched.
    uint64_t frames;
    // Tokens made, over all times.
    uint64_t tokens;
    // Largest number of tokens at one time.
    uint64_t max_tokens;
    // Arcs looked at, emitting and epsilon.
    uint64_t arcs;
    // Links made, before any pruning.
    uint64_t links;
    // Frames on which max_active tightened the beam.
    uint64_t max_active_held;
    // Frames on which a capacity tightened it.
    uint64_t capacity_held;
    // Links of the trace that are held now.
    uint64_t trace_links;
    // Bytes that tokens, links, trace, phrases and remembered best path hold now. The last is not counted
    // against memory_limit.
    uint64_t memory;
    // Seconds spent searching, by the wall clock.
    double seconds;
    // Links followed back for best paths, partial results and end points.
    uint64_t links_followed;
    // Frames that have been committed; see koshi_channel_set_commit.
    uint64_t committed_frames;
    // Commits at a token that not all paths went through.
    uint64_t forced_commits;
    // Those bytes of memory that the trace holds: what an utterance grows by. Divided by frames, less those
    // that have been committed, they are its bytes a frame.
    uint64_t trace_bytes;
} koshi_search_stats;

// What a channel tells of its queued rows (koshi_channel_submit). Any of them may be NULL. All run on one
// thread of the decoder's, which does nothing else: one at a time for all channels of a decoder, so a slow
// one holds up the others. It holds up no search: rows are searched while new words wait to be told, and what
// is new then is told at once, so a slow listener gets fewer partials. Behind an end point, and during a
// callback, its channel is not searched: what the callback asks is what it was told of.
//
// Calls on the channel work from inside, also koshi_channel_submit, _finish, _begin, _cancel, _free and
// _set_listener; koshi_channel_wait, on any channel of the decoder, answers KOSHI_E_BUSY. As another thread
// frees the channel, its handle is dead before the callback has returned: calls from inside then answer
// KOSHI_E_HANDLE (-1, NaN or NULL where there is no status), which is no fault of the listener's, and what it
// has fetched stays valid. A callback must not wait for a thread that frees the channel or its decoder or
// replaces the listener: that one may wait for the callback, and neither would ever end.
//
// They come in the order below. Either finished or failed comes exactly once an utterance, as the last of
// its events; neither for one that begin has cut short. What koshi_channel_push does is not told.
typedef struct {
    // sizeof this struct.
    uint32_t struct_size;
    // Must be 0.
    uint32_t reserved;
    // The words of koshi_channel_partial are others than they were; a new segment begins with none.
    void (*partial)(void *user_data, koshi_channel *channel);
    // An end point was found. Rows behind one that stops a push or closes a segment are not searched yet;
    // of a closed segment the last words are not told as a partial, koshi_channel_segment has them.
    void (*endpoint)(void *user_data, koshi_channel *channel);
    // All rows are searched and the channel is finished.
    void (*finished)(void *user_data, koshi_channel *channel);
    // The utterance stopped before its end; `status` and `message`, which is valid for the call only, say
    // why. What came before can be fetched.
    void (*failed)(void *user_data, koshi_channel *channel, koshi_status status, const char *message);
} koshi_channel_listener;

// Counts over all channels of a decoder since it was made. Frames are those that were submitted; what is
// pushed is not counted.
typedef struct {
    // Bytes that were filled.
    uint32_t struct_size;
    // Channels that exist now.
    uint32_t num_channels;
    // Frames that are queued now.
    uint64_t queued_frames;
    // Batches that were searched; on the CPU a batch is a chunk of one channel.
    uint64_t batches;
    // Frames that were searched.
    uint64_t frames;
    // Submits that were answered KOSHI_E_FULL.
    uint64_t rejected;
    // Utterances that were cancelled.
    uint64_t cancelled;
    // Mean number of channels in a batch: 1 on the CPU; 0 before the first.
    double mean_batch;
    // Seconds in which batches were searched, summed over the threads that do so.
    double seconds;
    // Frames searched in a second of these; 0 before the first.
    double frames_per_second;
    // Seconds from a submit to the end of the batch that searched its last row: for half of all submits no
    // more than this; 0 before the first. Exact to 5 %, as the next three.
    double latency_p50;
    // The same for 90 of 100 submits.
    double latency_p90;
    // The same for 99 of 100.
    double latency_p99;
    // The longest.
    double latency_max;
} koshi_metrics;

// Figures of a lattice.
typedef struct {
    // Bytes that were filled.
    uint32_t struct_size;
    // 1 for a compact lattice, 0 for a raw one.
    uint32_t is_compact;
    // States.
    uint32_t num_states;
    // Arcs.
    uint32_t num_arcs;
    // Frames that the lattice spans.
    uint32_t num_frames;
    // 1 if finals of the graph were reached, 0 if all last tokens counted as final.
    uint32_t reached_final;
    // The scale that the search applied to acoustic costs; 1 for a lattice that was read.
    float acoustic_scale;
    // Always 0.
    uint32_t reserved;
    // Graph cost of the best path at that scale; +inf without any path.
    double best_graph_cost;
    // Acoustic cost of the best path, without the scale; +inf without any path.
    double best_acoustic_cost;
    // What phrases cost on the best path, as in koshi_path_bias_cost; +inf without any path.
    double best_bias_cost;
} koshi_lattice_summary;

// An arc of a lattice. In a compact lattice both labels are the word.
typedef struct {
    // The state that the arc leads to.
    uint32_t next;
    // Input label: transition-id or column + 1; 0 for epsilon.
    int32_t ilabel;
    // Output label: word; 0 for epsilon.
    int32_t olabel;
    // Cost of the graph: language model, lexicon, transitions.
    float graph_cost;
    // Acoustic cost without the acoustic scale. The scaled one is this times the lattice's
    // acoustic_scale, rounded once.
    float acoustic_cost;
} koshi_lattice_arc;

// The cost of ending in a state of a lattice.
typedef struct {
    // Graph cost; +inf where the state is not final.
    float graph_cost;
    // Acoustic cost without the acoustic scale; +inf where the state is not final.
    float acoustic_cost;
} koshi_lattice_cost;

// A rule for end points. It holds where all of it does; times in seconds. +inf as a least time makes a
// rule that never holds.
typedef struct {
    // 1: the best path must have a frame that is not silence; 0: it need not.
    uint32_t must_contain_nonsilence;
    // Most cost of the best final token above the best token; +inf where finals do not matter. 0 or more.
    float max_relative_cost;
    // Least silence at the end of the best path. 0 or more.
    double min_trailing_silence;
    // Least length of the utterance. 0 or more.
    double min_utterance_length;
} koshi_endpoint_rule;

// How end points are found. After every frame, however rows are cut into pushes, the rules are tried in
// order on the best path without finals; the first that holds makes the end point. It is found once an
// utterance: koshi_channel_begin, or the next segment, looks for the next one. Seconds become frames as
// ceil(seconds / frame_shift - 1e-4), with the frame_shift of the decoder's options, which is the time
// from one row to the next, subsampling included.
//
// The defaults are Kaldi's: (no, 5, inf, 0), (yes, 0.5, 2, 0), (yes, 1, 8, 0), (yes, 2, inf, 0),
// (no, 0, inf, 20), as must_contain_nonsilence, min_trailing_silence, max_relative_cost,
// min_utterance_length. So the first one ends an utterance of nothing but silence after five seconds;
// behind speech one of the others holds long before.
//
// On the CPU looking costs a few microseconds a frame. On a GPU a channel that still looks for its end
// point advances by one frame a launch instead of up to 64.
typedef struct {
    // sizeof this struct.
    uint32_t struct_size;
    // What the list of silence labels is of: a koshi_silence. Default KOSHI_SILENCE_PHONES.
    int32_t silence;
    // What is done at an end point: a koshi_endpoint_action. Default KOSHI_ENDPOINT_NOTE.
    int32_t action;
    // With KOSHI_ENDPOINT_SEGMENT, how many closed segments of a channel keep their results: the last
    // ones, at least 1. Default 4.
    uint32_t segments_kept;
    // The rules, numbered from 1.
    koshi_endpoint_rule rules[5];
} koshi_endpoint_config;

// An end point.
typedef struct {
    // Bytes that were filled.
    uint32_t struct_size;
    // The rule that held, from 1; 0: no end point was found, and all that follows is 0.
    uint32_t rule;
    // Frames from koshi_channel_begin to the end point.
    uint64_t frames;
    // The same in seconds.
    double seconds;
    // How many of the last frames are silence on the best path.
    uint64_t trailing_silence;
    // Number of the segment that ends there, from 0; 0 without segments.
    uint64_t segment;
    // Frames before that segment.
    uint64_t first_frame;
    // Cost of the best final token above the best token there; +inf where none was final.
    float relative_cost;
    // 0.
    uint32_t reserved;
} koshi_endpoint;

// The options of koshi_lattice_determinize. Defaults are Kaldi's.
typedef struct {
    // sizeof this struct.
    uint32_t struct_size;
    // Word sequences whose best path costs at most this more than the best of all are kept. 0 or more,
    // +inf too. Default 10.
    float beam;
    // Scale of acoustic costs wherever costs are compared; the result is without it. Finite. Default 1;
    // koshi_lattice_info tells that of the search, at which the best path stays the best.
    float acoustic_scale;
    // 1: a first pass on words and phones, where transitions are given; 0: not. Default 1.
    uint32_t phone_determinize;
    // 1: a pass on words; 0: not, and then the result is not deterministic. Default 1.
    uint32_t word_determinize;
    // 1: the result is minimized as by koshi_lattice_minimize; 0: not. Default 0.
    uint32_t minimize;
    // Costs within this count as equal where states are merged. 0 or more. Default 1/1024.
    float delta;
    // Always 0.
    uint32_t reserved;
    // Bytes that a pass may hold before it makes do with a smaller beam; 0 for no cap. Default 50000000.
    uint64_t max_mem;
} koshi_determinize_config;

// Options of word alignment.
typedef struct {
    // sizeof this struct.
    uint32_t struct_size;
    // Word on arcs of silence; 0 for none. By word boundaries only: a lexicon names its own. Default 0.
    int32_t silence_label;
    // Word on arcs of phones that belong to no word of the lattice; 0 for none. Default 0.
    int32_t partial_word_label;
    // Not 0: self-loops stand behind the transition out of their state, as graphs made with --reorder=true
    // have it. Default 1.
    uint32_t reorder;
    // Not 0: phones that are in no word may stand inside one too. By word boundaries only. Default 0.
    uint32_t silence_may_be_word_internal;
    // Above 0: the lattice stays as it is once more than 1000 + this times its states would be needed.
    // Default 1000.
    float max_expand;
} koshi_align_options;

// How words are found in a lattice.
typedef struct {
    // sizeof this struct.
    uint32_t struct_size;
    // Not 0: the words are those of least expected error (minimum Bayes risk); 0: those of the best path.
    // Default 1.
    uint32_t decode_mbr;
    // Not 0: bins in which no word wins are there too, as word 0. Default 0.
    uint32_t keep_silence;
    // Not 0: words have the times of the best path that says exactly these words, where there is one; 0: a
    // word's times are their mean over all paths that have it in its place. Default 0.
    uint32_t one_best_times;
    // Multiplies acoustic costs. Finite. Default 1; koshi_lattice_info tells the scale of the search.
    float acoustic_scale;
    // Multiplies graph costs. Finite. Default 1.
    float graph_scale;
} koshi_words_config;

// How CTM lines are written.
typedef struct {
    // sizeof this struct.
    uint32_t struct_size;
    // Digits behind the point of times and confidences. At most 400. Default 2.
    uint32_t digits;
    // Not 0: confidences stand at the ends of lines. Default 1.
    uint32_t confidences;
    // Seconds from one frame to the next. Finite, above 0. Default 0.01.
    float frame_shift;
} koshi_ctm_format;

// A word. Times are in frames from the start, with fractions where they are means.
typedef struct {
    // The word; 0 for silence.
    int32_t label;
    // The bin that it was taken from.
    uint32_t bin;
    // Frames before it.
    float start;
    // Frames that it lasts.
    float frames;
    // Posterior probability that it was said here, 0 to 1.
    float confidence;
} koshi_word;

// A place of the confusion network: places of words and places between words take turns.
typedef struct {
    // Number of its first alternative; the likeliest stands first.
    uint32_t first;
    // Number of alternatives.
    uint32_t len;
    // Frames before it, the mean over its alternatives.
    float start;
    // Frames that it lasts.
    float frames;
} koshi_word_bin;

// One of the words that compete in a bin.
typedef struct {
    // The word; 0 for none.
    int32_t label;
    // Frames before it, the mean over the paths that have it here.
    float start;
    // Frames that it lasts.
    float frames;
    // Posterior probability, 0 to 1; those of a bin sum to 1.
    float posterior;
} koshi_word_alternative;

// A pdf that a frame is to be taken for, and how much this counts.
typedef struct {
    // Index of the pdf.
    int32_t pdf;
    // Weight; 1 for a plain label.
    float weight;
} koshi_label;

// What an example is made of. Arrays are copied. An array of length 0 may be NULL.
typedef struct {
    // sizeof this struct.
    uint32_t struct_size;
    // Rows before the first labelled frame. Default 0.
    int32_t left_context;
    // Labels of all labelled frames, one frame after the other.
    const koshi_label *labels;
    // How many of the labels each frame has; NULL for one each.
    const uint32_t *label_counts;
    // Labelled frames.
    uint64_t num_frames;
    // Features: `num_rows` rows of `dim` numbers that begin `stride` numbers apart.
    const float *rows;
    // Rows, context included.
    uint64_t num_rows;
    // Numbers in a row.
    uint64_t dim;
    // Numbers from the start of a row to the next; at least `dim`.
    uint64_t stride;
    // Speaker vector.
    const float *speaker;
    // Its length.
    uint64_t speaker_dim;
    // How the features are compressed: a koshi_compression. Default KOSHI_COMPRESSION_AUTO.
    int32_t compression;
    // Must be 0.
    uint32_t reserved;
} koshi_example_parts;

// Figures of an example.
typedef struct {
    // Bytes that were filled.
    uint32_t struct_size;
    // Rows before the first labelled frame.
    int32_t left_context;
    // Rows after the last labelled frame; negative if there are too few rows.
    int64_t right_context;
    // Labelled frames.
    uint64_t num_frames;
    // Labels of all frames together.
    uint64_t num_labels;
    // Rows of features.
    uint64_t num_rows;
    // Numbers in a row.
    uint64_t dim;
    // Length of the speaker vector.
    uint64_t speaker_dim;
    // How the features are stored: 1 for Kaldi's CM, 2 for CM2, 3 for CM3; 0 without rows.
    int32_t format;
    // Always 0.
    uint32_t reserved;
} koshi_example_summary;

// What a discriminative example is made of. Arrays are copied. An array of length 0 may be NULL.
typedef struct {
    // sizeof this struct.
    uint32_t struct_size;
    // How much the example counts. Default 1.
    float weight;
    // Rows before the first frame of the alignment. Default 0.
    int32_t left_context;
    // Must be 0.
    uint32_t reserved;
    // The numerator alignment: one transition-id a frame.
    const int32_t *alignment;
    // Its frames.
    uint64_t num_frames;
    // The denominator, raw or compact; NULL for a lattice without any path. It can be freed after the call.
    const koshi_lattice *lattice;
    // Features: `num_rows` rows of `dim` numbers that begin `stride` numbers apart.
    const float *rows;
    // Rows, context included.
    uint64_t num_rows;
    // Numbers in a row.
    uint64_t dim;
    // Numbers from the start of a row to the next; at least `dim`.
    uint64_t stride;
    // Speaker vector.
    const float *speaker;
    // Its length.
    uint64_t speaker_dim;
} koshi_degs_parts;

// Figures of a discriminative example.
typedef struct {
    // Bytes that were filled.
    uint32_t struct_size;
    // How much the example counts.
    float weight;
    // Rows before the first frame of the alignment.
    int32_t left_context;
    // Always 0.
    uint32_t reserved;
    // Frames of the numerator alignment.
    uint64_t num_frames;
    // Rows of features.
    uint64_t num_rows;
    // Numbers in a row.
    uint64_t dim;
    // Length of the speaker vector.
    uint64_t speaker_dim;
} koshi_degs_summary;

// The options of a transducer search.
typedef struct {
    // sizeof this struct.
    uint32_t struct_size;
    // A koshi_transducer_method. Default KOSHI_TRANSDUCER_DEFAULT.
    int32_t search;
    // Hypotheses that are kept, and labels that each is extended by; the vocabulary bounds both. At
    // least 1. All but greedy. Default 5.
    uint32_t beam;
    // Most labels of a frame. 1 to 1024. Greedy. Default 1.
    uint32_t max_symbols_per_frame;
    // A frame ends after this many expansions for each place of the beam; the best so far go on, and
    // the result is KOSHI_OK_PARTIAL. 1 to 1024. Default search. Default 50.
    uint32_t max_expansions_per_frame;
    // Rounds of a frame: one more than its most labels. 1 to 1024. TSD. Default 2.
    uint32_t max_sym_exp;
    // Most labels of a finished hypothesis. Where none finishes the best unfinished ones are the result, and
    // it is KOSHI_OK_PARTIAL. As many steps follow the last row, unless 1024 labels were taken there. A long
    // stream needs as much as it will have labels: each further one keeps one more row waiting until the end.
    // 0 to 16777216. ALSD. Default 50.
    uint32_t u_max;
    // Label extensions of a frame. 1 to 1024; with 1 the closing blank of the last extension is not
    // counted. NSC. Default 1.
    uint32_t nstep;
    // By how many labels a hypothesis may be longer than one that it takes over score from. 0 to 1024. NSC.
    // Default 1.
    uint32_t prefix_alpha;
    // Weight of lm_predict, on labels only. Finite; 0: it is not asked. Default 0.
    float lm_weight;
    // 1: n-best lists are in the order of the score divided by the length with start symbol; 0: of the
    // score. Default 1.
    uint32_t score_norm;
    // Most hypotheses of a result. At least 1. Default 1.
    uint32_t nbest;
    // Predictions that a stream keeps although no hypothesis stands there now, since one may come back; the
    // others are released at once. Default 1024.
    uint32_t max_cached;
    // Each so many frames, what the best hypothesis took longer ago than that is decided: hypotheses with
    // other labels there, or the same at other frames, are dropped. Without it two hypotheses that differ
    // early may both live for ever, and nothing behind that can be committed. 0: never. All but greedy.
    // Default 0.
    uint32_t commit_frames;
} koshi_transducer_config;

// The networks of a transducer. Matrices are dense, a row for each of `n`. A negative answer is a
// koshi_status of the callback's choice: that utterance fails with KOSHI_E_CALLBACK and the others go on.
// (When a call for several utterances fails, each is asked for again alone.)
//
// Callbacks run on the threads that call for streams or searches of the transducer: on several at
// once if those do. A state is a number of the callback's choice, as an index or an address. Each
// one that a successful call has written to states_out is released once: when no hypothesis needs it any
// more, at the latest when its stream ends, fails or is freed. A failing call has handed out nothing.
typedef struct {
    // sizeof this struct.
    uint32_t struct_size;
    // Labels, the blank included: 2 to 16777216.
    uint32_t vocab_size;
    // The blank label, any below vocab_size.
    int32_t blank;
    // Columns of an encoder row: 1 to 16777216.
    uint32_t encoder_dim;
    // Columns of an output of predict: 1 to 16777216.
    uint32_t output_dim;
    // What join answers: a koshi_transducer_scores.
    int32_t scores;
    // Reads `labels[i]` after the history of `states_in[i]`; writes the state after it and its output. A
    // history begins with the blank, read in state 0; nothing else reads the blank.
    koshi_status (*predict)(void *user_data,
                            const uint64_t *states_in,
                            const int32_t *labels,
                            size_t n,
                            uint64_t *states_out,
                            float *outputs);
    // Joins row i of encoder_rows (encoder_dim wide) and of outputs (output_dim wide) into row i of scores
    // (vocab_size wide). NaN and +inf end the utterance with KOSHI_E_SCORES; -inf is never taken.
    koshi_status (*join)(void *user_data,
                         const float *encoder_rows,
                         const float *outputs,
                         size_t n,
                         float *scores);
    // Takes a state back. May be NULL where states need no release.
    void (*release_state)(void *user_data, koshi_transducer_part part, uint64_t state);
    // As predict, for a language model: writes natural logs of the probability of each next label,
    // vocab_size wide. May be NULL.
    koshi_status (*lm_predict)(void *user_data,
                               const uint64_t *states_in,
                               const int32_t *labels,
                               size_t n,
                               uint64_t *states_out,
                               float *log_probs);
} koshi_transducer_ops;

// How often the callbacks of a transducer were called with success, and for how many rows, since it was made.
typedef struct {
    // Bytes that were filled.
    uint32_t struct_size;
    // 0.
    uint32_t reserved;
    // Calls of predict.
    uint64_t predict_calls;
    // Histories in them.
    uint64_t predict_rows;
    // Calls of join.
    uint64_t join_calls;
    // Pairs in them.
    uint64_t join_rows;
    // Calls of lm_predict.
    uint64_t lm_calls;
    // Histories in them.
    uint64_t lm_rows;
    // States that were handed out and not released yet.
    uint64_t states;
} koshi_transducer_calls;

// An utterance of koshi_transducer_search, and what became of it.
typedef struct {
    // Its encoder rows.
    const float *rows;
    // Number of rows, which may be 0.
    size_t frames;
    // Number of columns: the encoder_dim of the transducer.
    size_t dim;
    // Elements from one row to the next.
    size_t stride;
    // Result: what koshi_transducer_stream_push or _finish would have answered.
    koshi_status status;
    // Must be 0.
    uint32_t reserved;
    // Result: why it failed, to be freed by the caller; NULL if it did not.
    koshi_error *error;
} koshi_transducer_utterance;

// Rows for one stream of koshi_transducer_advance, and what became of them.
typedef struct {
    // The stream.
    koshi_transducer_stream *stream;
    // Its next rows, as for koshi_transducer_stream_push.
    const float *rows;
    // Number of rows.
    size_t frames;
    // Number of columns.
    size_t dim;
    // Elements from one row to the next.
    size_t stride;
    // Result: what koshi_transducer_stream_push would have answered.
    koshi_status status;
    // 1 if these are the last rows, so that finish has nothing left to search; else 0.
    uint32_t last;
} koshi_transducer_item;

// The options of the chain objective. Defaults are Kaldi's.
typedef struct {
    // sizeof this struct.
    uint32_t struct_size;
    // Where to compute: a koshi_backend. Default KOSHI_BACKEND_AUTO: the GPU if one is usable, else the CPU,
    // which also takes the place of a GPU that fails or lacks the memory. The first call takes the graph to
    // the GPU.
    int32_t backend;
    // Index of the GPU. Default 0.
    uint32_t device;
    // Threads over which sequences are spread on the CPU: 1 to 1024. Default by the machine. Results are
    // the same bits with any number. Those of a GPU are the same bits in every run, and the CPU's but for
    // roundings.
    uint32_t num_threads;
    // Scale of the l2 penalty on the network output. 0 or more. Default 0.
    float l2_regularize;
    // Scale of the penalty on outputs beyond -30 and 30, in the derivative only. 0 or more. Default 0.01.
    float out_of_range_regularize;
    // How likely a leap to any state is between frames: 0 or more, below 1. Default 1e-5.
    float leaky_hmm_coefficient;
    // Scale of the cross-entropy objective, kept for the caller: nothing here is multiplied by it. Default 0.
    float xent_regularize;
    // 1: the out-of-range penalty is drawn as in Kaldi, nothing in half of the calls and twice the scale in
    // the others; 0: it is applied at its scale in each. Default 0.
    uint32_t randomised_penalty;
    // Must be 0.
    uint32_t reserved;
    // What randomised_penalty and randomised_thresholds draw from, the same for the same number: count the
    // calls here. Default 0.
    uint64_t seed;
    // Factors of the rows of the derivatives that koshi_chain_objf writes, one a row; NULL for none.
    // Default NULL.
    const float *deriv_weights;
    // Their number. Default 0.
    uint64_t num_deriv_weights;
    // Where the matrices are: a koshi_memory. KOSHI_MEMORY_DEVICE needs the GPU: KOSHI_E_UNSUPPORTED with
    // KOSHI_BACKEND_CPU, and KOSHI_BACKEND_AUTO does not go to the CPU instead. deriv_weights and lengths are
    // always in the host's memory. Default KOSHI_MEMORY_HOST.
    int32_t memory;
    // 1: on a GPU, occupancies below 2^-14, of which a pdf's is the sum, become 2^-14 or 0, drawn with the
    // same mean, as Kaldi's GPU code does; 0: they are added up as they are. The CPU always does that.
    // Default 0.
    uint32_t randomised_thresholds;
    // The work that matrices in device memory wait for: what `stream` holds so far, a CUstream of the
    // device's primary context, NULL for its default stream. All is written when a call returns. Default
    // NULL.
    void *stream;
} koshi_chain_config;

#ifdef __cplusplus
extern "C" {
#endif // __cplusplus

// Version of the loaded library: major * 1000000 + minor * 1000 + patch.
uint32_t koshi_version(void);

// Version of the loaded library as text, "major.minor.patch". Lives as long as the library.
const char *koshi_version_string(void);

// Name of a status, as "KOSHI_E_IO"; "KOSHI_E_UNKNOWN" for a number that this version does
// not know. The text lives as long as the library.
const char *koshi_status_name(koshi_status status);

// Status that the failed call answered; KOSHI_E_HANDLE for a bad handle.
koshi_status koshi_error_status(const koshi_error *error);

// What went wrong, in one line of UTF-8 that names the file, byte offset, frame, arc or
// argument at fault and ends with the messages of the causes; NULL for a bad handle.
// The text lives as long as the error.
const char *koshi_error_message(const koshi_error *error);

// The error behind this one, NULL if there is none or the handle is bad. It belongs to
// `error` and lives as long; count it with koshi_error_ref to keep it longer.
const koshi_error *koshi_error_cause(const koshi_error *error);

// Counts `error` once more and returns it; NULL for a bad handle.
koshi_error *koshi_error_ref(const koshi_error *error);

// Takes back one count of `error`; the last one frees it. NULL is fine.
koshi_status koshi_error_free(koshi_error *error);

// Sends log messages up to `max_level` (a koshi_log_level) to `function`, in place of the
// callback set before; NULL turns them off. `drop` runs once when `user_data` is no longer
// used, also when this call fails. Returns when no thread runs the callback set before,
// or at once when called from inside it. Any thread, any time.
// Fails with KOSHI_E_STATE in a Rust program that has set a logger of its own.
koshi_status koshi_log_set(koshi_log_fn function,
                           void *user_data,
                           koshi_drop_fn drop,
                           int32_t max_level,
                           koshi_error **err);

// Number of GPUs that can be used; 0 where there is none or no driver. The driver is asked
// once, at the first call. Never fails.
int32_t koshi_cuda_device_count(void);

// Why koshi_cuda_device_count is 0, in one line of UTF-8; empty where it is not. Lives as long
// as the library.
const char *koshi_cuda_why_not(void);

// Describes GPU `index` (from 0) in `*info` of `size` bytes.
// KOSHI_E_NO_DEVICE where there is no such GPU.
koshi_status koshi_cuda_device_info(int32_t index, koshi_cuda_device *info, size_t size, koshi_error **err);

// Reads a transition model, binary or text, from the start of the file that a Kaldi rxfilename names
// (a path, or "command |" where commands are allowed) into *transitions. A GMM or a network may
// follow. KOSHI_E_IO; KOSHI_E_FORMAT with file and byte.
koshi_status koshi_transitions_read(const char *path, koshi_transitions **transitions, koshi_error **err);

// As koshi_transitions_read, from `size` bytes at `data`, which are not needed afterwards.
koshi_status koshi_transitions_from_memory(const uint8_t *data,
                                           size_t size,
                                           koshi_transitions **transitions,
                                           koshi_error **err);

// Number of transition-ids; -1 for a bad handle.
int32_t koshi_transitions_num_ids(const koshi_transitions *transitions);

// Number of pdfs, that is, of columns that a row must have; -1 for a bad handle.
int32_t koshi_transitions_num_pdfs(const koshi_transitions *transitions);

// Pdf of transition-id `id`; -1 for a bad handle or id.
int32_t koshi_transitions_pdf(const koshi_transitions *transitions, int32_t id);

// Phone of transition-id `id`; -1 for a bad handle or id.
int32_t koshi_transitions_phone(const koshi_transitions *transitions, int32_t id);

// State of transition-id `id` within its phone's HMM, from 0; -1 for a bad handle or id.
int32_t koshi_transitions_hmm_state(const koshi_transitions *transitions, int32_t id);

// 1 if transition-id `id` stays in its HMM state, 0 if not; -1 for a bad handle or id.
int32_t koshi_transitions_is_self_loop(const koshi_transitions *transitions, int32_t id);

// Counts `transitions` once more and returns it; NULL for a bad handle.
koshi_transitions *koshi_transitions_ref(const koshi_transitions *transitions);

// Takes back one count of `transitions`; the last one frees it, once no graph uses it. NULL is fine.
koshi_status koshi_transitions_free(koshi_transitions *transitions);

// Reads a symbol table, in OpenFst's text or binary form, from the file that a Kaldi rxfilename names
// (a path, or "command |" where commands are allowed) into *symbols. KOSHI_E_IO; KOSHI_E_FORMAT names
// file and line for a symbol or id that comes twice, a negative id or a line of another form.
koshi_status koshi_symbols_read(const char *path, koshi_symbols **symbols, koshi_error **err);

// As koshi_symbols_read, from `size` bytes at `data`, which are not needed afterwards.
koshi_status koshi_symbols_from_memory(const uint8_t *data,
                                       size_t size,
                                       koshi_symbols **symbols,
                                       koshi_error **err);

// Id of the symbol `text`; -1 if there is none, and for a bad handle.
int32_t koshi_symbols_find(const koshi_symbols *symbols, const char *text);

// Symbol of `id`; NULL if there is none, and for a bad handle. It lives as long as the table.
const char *koshi_symbols_name(const koshi_symbols *symbols, int32_t id);

// Number of symbols; -1 for a bad handle.
int64_t koshi_symbols_size(const koshi_symbols *symbols);

// Counts `symbols` once more and returns it; NULL for a bad handle.
koshi_symbols *koshi_symbols_ref(const koshi_symbols *symbols);

// Takes back one count of `symbols`; the last one frees it. NULL is fine.
koshi_status koshi_symbols_free(koshi_symbols *symbols);

// Reads an OpenFst file of type vector or const, with standard arcs, into *graph. `path` is a file, or
// what else Kaldi calls an rxfilename ("file:offset", and "command |" where commands are allowed). With
// `transitions` an input label is a transition-id and reads the column of its pdf; with NULL, label i
// reads column i - 1. A file is mapped while it is read: do not shorten it meanwhile. KOSHI_E_IO;
// KOSHI_E_FORMAT for a broken file; KOSHI_E_UNSUPPORTED for other types of FST or arc; KOSHI_E_GRAPH for
// no start state, states or labels out of range, -inf or NaN weights, epsilon cycles (states named);
// KOSHI_E_NO_MEMORY. A file of koshi_graph_write_cache is mapped as long as the graph is in use: nobody
// may change it, only put a new file in its place; KOSHI_E_UNSUPPORTED where another version or kind of
// machine wrote it, KOSHI_E_GRAPH where it was written with another model or table of columns. No final
// state, unreachable parts and +inf weights are fine: koshi_graph_info tells of them.
koshi_status koshi_graph_read(const char *path,
                              const koshi_transitions *transitions,
                              koshi_graph **graph,
                              koshi_error **err);

// As koshi_graph_read, from `size` bytes at `data`, which are not needed afterwards.
koshi_status koshi_graph_from_memory(const uint8_t *data,
                                     size_t size,
                                     const koshi_transitions *transitions,
                                     koshi_graph **graph,
                                     koshi_error **err);

// As koshi_graph_read, where label i reads column `columns[i]`. The table has `num_columns` entries;
// entry 0 is not used, and a label without an entry, or with a negative one, is KOSHI_E_GRAPH.
koshi_status koshi_graph_read_mapped(const char *path,
                                     const int32_t *columns,
                                     size_t num_columns,
                                     koshi_graph **graph,
                                     koshi_error **err);

// Writes `graph` to `path` as it lies in memory, for koshi_graph_read with the same transition model or
// table of columns. Such a file is mapped instead of read: it is there at once, whatever its size, and
// processes share its memory. It is made beside `path` and takes its place when it is whole. KOSHI_E_IO;
// KOSHI_E_ARGUMENT where `path` is there and not a file; KOSHI_E_NO_MEMORY.
koshi_status koshi_graph_write_cache(const koshi_graph *graph, const char *path, koshi_error **err);

// Waits until the file that `graph` is mapped from has been checked to its end; at once for other
// graphs. Nobody needs to call it: koshi_channel_finish and lattices wait for that check, and pushes and
// partial results fail once it has found a fault. KOSHI_E_FORMAT or KOSHI_E_GRAPH for a damaged file; a push
// before that is found may fail with another status, KOSHI_E_INTERNAL too.
koshi_status koshi_graph_check(const koshi_graph *graph, koshi_error **err);

// As koshi_graph_read_mapped, from `size` bytes at `data`, which are not needed afterwards.
koshi_status koshi_graph_from_memory_mapped(const uint8_t *data,
                                            size_t size,
                                            const int32_t *columns,
                                            size_t num_columns,
                                            koshi_graph **graph,
                                            koshi_error **err);

// Describes `graph` in *info of `size` bytes. The first call on a graph walks all its arcs.
koshi_status koshi_graph_info(const koshi_graph *graph,
                              koshi_graph_summary *info,
                              size_t size,
                              koshi_error **err);

// Counts `graph` once more and returns it; NULL for a bad handle.
koshi_graph *koshi_graph_ref(const koshi_graph *graph);

// Takes back one count of `graph`; the last one frees it, once no decoder uses it. NULL is fine.
koshi_status koshi_graph_free(koshi_graph *graph);

// Makes a decodable of a matrix of `frames` rows of `dim` log-likelihoods, `stride` elements apart,
// in *decodable. All frames are ready. The matrix is not copied: it must stay as it is until the
// decodable is freed. KOSHI_E_SHAPE if `stride` is below `dim`.
koshi_status koshi_decodable_from_matrix(const float *rows,
                                         size_t frames,
                                         size_t dim,
                                         size_t stride,
                                         koshi_decodable **decodable,
                                         koshi_error **err);

// Makes a decodable of callbacks, in *decodable. `ops` is copied. `drop` runs once when `user_data`
// is no longer used: in koshi_decodable_free, or when this call fails.
koshi_status koshi_decodable_new(const koshi_decodable_ops *ops,
                                 void *user_data,
                                 koshi_drop_fn drop,
                                 koshi_decodable **decodable,
                                 koshi_error **err);

// Frees `decodable`. Waits until no other thread uses it; a koshi_channel_advance that does ends
// with KOSHI_E_HANDLE before its next frame. From inside one of its own callbacks it returns at
// once, and `drop` runs when that koshi_channel_advance ends. NULL is fine.
koshi_status koshi_decodable_free(koshi_decodable *decodable);

// Fills *config, of `size` bytes, with the defaults.
koshi_status koshi_decoder_config_init(koshi_decoder_config *config, size_t size, koshi_error **err);

// Makes a decoder over `graph` in *decoder. `config` NULL: the defaults. KOSHI_E_CONFIG names an
// option out of its range; KOSHI_E_NO_DEVICE says why there is no GPU where one was asked for.
koshi_status koshi_decoder_new(const koshi_graph *graph,
                               const koshi_decoder_config *config,
                               koshi_decoder **decoder,
                               koshi_error **err);

// Describes `decoder` in *info of `size` bytes.
koshi_status koshi_decoder_info(const koshi_decoder *decoder,
                                koshi_decoder_summary *info,
                                size_t size,
                                koshi_error **err);

// Advances `num_items` distinct channels of `decoder` by their rows, as one batch over its lanes.
// `item_size` is `sizeof items[0]`. Each item gets its own status, and what becomes of one does not
// touch the others: a bad channel handle, a channel that is in use or stands twice in `items`, or one
// of another decoder is that item's matter too. KOSHI_OK if all items succeeded, else
// KOSHI_OK_PARTIAL. KOSHI_E_ARGUMENT, _HANDLE and _UNSUPPORTED are about the call itself: then no item
// was touched.
koshi_status koshi_decoder_advance(const koshi_decoder *decoder,
                                   koshi_decoder_item *items,
                                   size_t num_items,
                                   size_t item_size,
                                   koshi_error **err);

// Frees `decoder`, once none of its channels exists any more. NULL is fine.
koshi_status koshi_decoder_free(koshi_decoder *decoder);

// Makes a channel of `decoder` in *channel. KOSHI_E_LIMIT when max_channels exist.
koshi_status koshi_channel_new(const koshi_decoder *decoder, koshi_channel **channel, koshi_error **err);

// Begins a new utterance, from any state. Results of the one before are gone, its segments and what is queued
// too. End points are found by the rules that the decoder has now.
koshi_status koshi_channel_begin(koshi_channel *channel, koshi_error **err);

// Makes phrases of output labels more likely, or less by a bonus below 0, in this channel; those of an
// earlier call are forgotten, and with `num_phrases` 0 there are none. They are copied. In an
// utterance that has begun they hold from the next frame on that is searched, also where that one is
// queued already (koshi_channel_submit): what was held of an earlier list's bonuses is given back
// there. Search and pruning go by the biased costs; paths and lattices have the bias apart from their
// graph costs (koshi_path_bias_cost, koshi_lattice_bias_costs). A channel without phrases gives the
// same bits as if this function did not exist. On a GPU a list takes device memory from the call on in
// an utterance that has begun, otherwise from koshi_channel_begin on, and the decoder's first list, or
// one much larger than all before, more of it for all lanes (koshi_decoder_summary counts both):
// KOSHI_E_NO_MEMORY, from either call, where there is too little.
// KOSHI_E_CONFIG names a phrase without labels, with a label below 1, or with a bonus out of its range;
// KOSHI_E_LIMIT if all have more than 2^24 labels together. On an error nothing has changed.
koshi_status koshi_channel_set_bias(koshi_channel *channel,
                                    const koshi_phrase *phrases,
                                    size_t num_phrases,
                                    koshi_error **err);

// Searches `frames` rows of `dim` log-likelihoods, `stride` elements apart, before it returns. However
// an utterance is cut into pushes, its results are the same. The rows are not needed afterwards.
// KOSHI_OK_PARTIAL where an end point has stopped it before the last row (KOSHI_ENDPOINT_STOP):
// koshi_channel_num_frames says how far it came, and the rows that are left are the caller's to push.
// KOSHI_E_STATE unless open; KOSHI_E_SHAPE names arc, label and width where the graph needs more
// columns; KOSHI_E_SCORES for NaN or +inf (-inf: no such arc in that frame), with frame and column;
// KOSHI_E_NO_TOKENS and KOSHI_E_CAPACITY with the frame; KOSHI_E_LIMIT; KOSHI_E_CANCELLED. Everything
// before a frame that fails is kept. After _SCORES, _NO_TOKENS, _CAPACITY and _CANCELLED pushes answer
// the same until the next begin, while results can be fetched.
koshi_status koshi_channel_push(koshi_channel *channel,
                                const float *rows,
                                size_t frames,
                                size_t dim,
                                size_t stride,
                                koshi_error **err);

// The same as koshi_channel_push for `frames` rows in the memory of the decoder's GPU: `rows` is the
// address of the first element, a CUdeviceptr. They are read behind the work that `stream` holds so far:
// a CUstream of the device's primary context, or NULL for its default stream. The call returns when they
// have been searched. KOSHI_E_UNSUPPORTED where the decoder computes on the CPU; KOSHI_E_ARGUMENT where the
// driver knows that the GPU cannot reach the first or the last element; KOSHI_E_DEVICE names what the
// driver answered.
koshi_status koshi_channel_push_device(koshi_channel *channel,
                                       uint64_t rows,
                                       size_t frames,
                                       size_t dim,
                                       size_t stride,
                                       void *stream,
                                       koshi_error **err);

// Pulls frames from `decodable` while they are ready, at most `max_frames` of them (negative: no
// bound), and writes how many were searched to *frames_decoded, which may be NULL. Frame numbers count
// from begin. An end point that stops a push stops it too. Otherwise as koshi_channel_push; a callback
// that fails is KOSHI_E_CALLBACK, and the call can be made again. Callbacks run on this thread.
// KOSHI_E_BUSY if another call uses the decodable.
koshi_status koshi_channel_advance(koshi_channel *channel,
                                   koshi_decodable *decodable,
                                   int64_t max_frames,
                                   uint64_t *frames_decoded,
                                   koshi_error **err);

// No more rows will come. Results can be fetched until the next begin. Behind rows that are queued: returns
// at once then, koshi_channel_wait returns when it is done, and results meanwhile are those of what is
// searched. So does a channel with a listener, which is told.
koshi_status koshi_channel_finish(koshi_channel *channel, koshi_error **err);

// Stops the utterance before its next frame: pushes, also one that is at work, answer
// KOSHI_E_CANCELLED until the next begin. What is queued is forgotten at once. May be called at any time
// from any thread, and never answers KOSHI_E_BUSY.
koshi_status koshi_channel_cancel(koshi_channel *channel, koshi_error **err);

// Frames searched since begin, those of closed segments too; -1 for a bad handle or a channel at work.
int64_t koshi_channel_num_frames(const koshi_channel *channel);

// 1 if a token of the last time is in a final state, 0 if none is; -1 for a bad handle, a channel at
// work or one that has not begun.
int32_t koshi_channel_reached_final(const koshi_channel *channel);

// Cost of the best final token above the best token, final costs included; +inf if none is final; NaN
// where koshi_channel_reached_final answers -1.
float koshi_channel_final_relative_cost(const koshi_channel *channel);

// The best path now, in *path: to the best final token if `use_final` is not 0 and one is reached,
// else to the best token. Before finish too. KOSHI_E_STATE if the channel has not begun.
koshi_status koshi_channel_best_path(const koshi_channel *channel,
                                     int32_t use_final,
                                     koshi_path **path,
                                     koshi_error **err);

// The best path to the best token now, in *path, and in *stable_words, which may be NULL, how many of
// its words can no longer change: that number never falls before the next begin (or the next segment),
// and those words stay.
// Cheap enough for every push: what is searched since the last call is followed back, and labels of
// the whole path are copied. Without `stable_words` only the best path is, not those of all tokens.
// KOSHI_E_STATE if the channel has not begun.
koshi_status koshi_channel_partial(const koshi_channel *channel,
                                   koshi_path **path,
                                   size_t *stable_words,
                                   koshi_error **err);

// As koshi_channel_partial, without what the caller has already: *path is the best path without its
// first `from_word` words, and without the frames before the next word. So a call costs what is new,
// however long the utterance. *stable_words counts from the first word, costs are those of the whole
// path. A `from_word` of at most the *stable_words of an earlier call skips words that stay; where the
// best path has fewer words, *path has none.
koshi_status koshi_channel_partial_words(const koshi_channel *channel,
                                         size_t from_word,
                                         koshi_path **path,
                                         size_t *stable_words,
                                         koshi_error **err);

// The raw lattice now, in *lattice: what finish would give if no more rows came. If `use_final` is not
// 0 and a last token is final, only final ones end paths; else all last tokens do. It begins behind the
// frames that koshi_channel_committed_frames tells. KOSHI_E_STATE if the channel has not begun.
koshi_status koshi_channel_lattice(koshi_channel *channel,
                                   int32_t use_final,
                                   koshi_lattice **lattice,
                                   koshi_error **err);

// The best path of koshi_channel_best_path as a raw lattice of that one path, in *lattice: labels and
// costs of each of its arcs, and its final cost. It begins where koshi_channel_lattice begins.
// KOSHI_E_STATE if the channel has not begun.
koshi_status koshi_channel_best_path_lattice(const koshi_channel *channel,
                                             int32_t use_final,
                                             koshi_lattice **lattice,
                                             koshi_error **err);

// Counts of `channel` since begin, in *stats of `size` bytes. KOSHI_E_STATE if it has not begun.
koshi_status koshi_channel_stats(const koshi_channel *channel,
                                 koshi_search_stats *stats,
                                 size_t size,
                                 koshi_error **err);

// Frees `channel`. A call that is at work on it ends first and is not waited for. Rows that are queued are
// not searched; waits until no callback of its listener runs, unless called from inside a callback, and none
// follows: a callback must not wait for the thread that frees its channel. Calls that come later, also from
// inside that last callback, answer KOSHI_E_HANDLE. NULL is fine.
koshi_status koshi_channel_free(koshi_channel *channel);

// Copies `frames` rows, as for koshi_channel_push, to the end of the channel's queue and returns. Threads of
// the decoder's search what is queued: the channels that have waited longest first, of each at most
// chunk_frames rows. On the CPU there are num_threads of them (but no more than num_lanes), each with a
// channel of its own; on a GPU one, which searches num_lanes channels in a batch. They start with the first
// channel that needs them. Results are those of koshi_channel_push, bit for bit. May be called at any time
// from any thread; rows of several threads lie in the order of the calls. KOSHI_E_FULL if the rows do not all
// fit in the queue: none is taken then, try again later. KOSHI_E_LIMIT if there are more than queue_frames.
// KOSHI_E_SHAPE and KOSHI_E_STATE as for koshi_channel_push. What the utterance has failed with is answered
// until the next begin, also KOSHI_E_SCORES and the like, which are only found in the search. While rows are
// queued koshi_channel_push, _push_device and _advance and koshi_decoder_advance answer KOSHI_E_BUSY;
// koshi_channel_begin forgets the rows.
koshi_status koshi_channel_submit(koshi_channel *channel,
                                  const float *rows,
                                  size_t frames,
                                  size_t dim,
                                  size_t stride,
                                  koshi_error **err);

// Lets the decoder's threads pull from `decodable` all frames that it has ready, in turn with the other
// channels. Returns at once; call it again, with the same decodable, whenever more frames are ready:
// num_frames_ready is asked after each such call and after each batch that the channel was in, and at
// koshi_channel_finish. Frame numbers count from begin. Callbacks run on the decoder's threads, those of
// different decodables at the same time; calls on the channel wait meanwhile, or answer KOSHI_E_BUSY where
// they come from the callback itself, as do those on other channels that are being searched. A callback that
// fails ends the utterance with KOSHI_E_CALLBACK behind the frames before it (where an end point has stopped
// in front of some of those, it is asked once more), a decodable that another call uses with KOSHI_E_BUSY,
// one that was freed before the utterance was finished, cancelled or begun anew with KOSHI_E_HANDLE; its data
// is dropped when the utterance has ended. Otherwise as koshi_channel_submit.
koshi_status koshi_channel_submit_decodable(koshi_channel *channel,
                                            koshi_decodable *decodable,
                                            koshi_error **err);

// Waits until all that is queued is searched, the utterance finished if koshi_channel_finish was called, and
// the listener told. KOSHI_OK_PARTIAL if that takes longer than `timeout` seconds; 0 asks without waiting, a
// negative one waits without bound. What the utterance has failed with is answered until the next begin:
// KOSHI_E_SCORES, KOSHI_E_CANCELLED and so on. KOSHI_E_BUSY from within a callback that a thread of the
// decoder's runs; KOSHI_E_HANDLE if the channel is freed meanwhile. Any number of threads may wait while
// others use the channel.
koshi_status koshi_channel_wait(koshi_channel *channel, double timeout, koshi_error **err);

// Tells `listener`, which is copied, in place of the one set before; NULL: nobody. `drop` runs once when
// `user_data` is no longer used, also when this call fails. May be called at any time from any thread;
// returns when no callback of the one set before runs any more and its data is dropped, and no further one
// follows. From inside a callback, of a listener or of a decodable, it returns at once; the data is then
// dropped when the callback that runs has returned. koshi_channel_free does the same.
koshi_status koshi_channel_set_listener(koshi_channel *channel,
                                        const koshi_channel_listener *listener,
                                        void *user_data,
                                        koshi_drop_fn drop,
                                        koshi_error **err);

// Counts of the queues of `decoder`, in *metrics of `size` bytes. Costs other calls nothing.
koshi_status koshi_decoder_metrics(const koshi_decoder *decoder,
                                   koshi_metrics *metrics,
                                   size_t size,
                                   koshi_error **err);

// The path's output labels (words) that are not epsilon, and their number in *len, which may be
// NULL. NULL and 0 for a bad handle. The array lives as long as the path.
const int32_t *koshi_path_olabels(const koshi_path *path, size_t *len);

// The path's input labels (transition-ids) that are not epsilon: one a frame, behind those frames that the
// channel has committed. Otherwise as koshi_path_olabels.
const int32_t *koshi_path_ilabels(const koshi_path *path, size_t *len);

// For each output label of the path the frame at which its arc starts: the number of frames
// before it. Otherwise as koshi_path_olabels.
const uint32_t *koshi_path_frames(const koshi_path *path, size_t *len);

// Sum of the path's graph costs, final cost included; NaN for a bad handle.
double koshi_path_graph_cost(const koshi_path *path);

// Sum of what the phrases of koshi_channel_set_bias cost on the path: below 0 where they made it more
// likely, 0 without phrases. Not part of the graph cost. NaN for a bad handle.
double koshi_path_bias_cost(const koshi_path *path);

// Sum of the path's acoustic costs without the acoustic scale; NaN for a bad handle.
double koshi_path_acoustic_cost(const koshi_path *path);

// Writes the path's words, one space between two, to `buffer` of `capacity` bytes with a NUL
// behind them, and their length without it to *len, which may be NULL. `symbols` NULL: words are
// written as numbers. With a capacity of 0 only the length is written, and `buffer` may be NULL.
// KOSHI_E_ARGUMENT if the text does not fit or a word has no symbol, which the message names.
koshi_status koshi_path_text(const koshi_path *path,
                             const koshi_symbols *symbols,
                             char *buffer,
                             size_t capacity,
                             size_t *len,
                             koshi_error **err);

// Counts `path` once more and returns it; NULL for a bad handle.
koshi_path *koshi_path_ref(const koshi_path *path);

// Takes back one count of `path`; the last one frees it. NULL is fine.
koshi_status koshi_path_free(koshi_path *path);

// Describes `lattice` in *info of `size` bytes. Finds the best path, so it walks all arcs.
koshi_status koshi_lattice_info(const koshi_lattice *lattice,
                                koshi_lattice_summary *info,
                                size_t size,
                                koshi_error **err);

// The lattice's arcs by state, and their number in *len, which may be NULL. NULL and 0 for a bad
// handle. The array lives as long as the lattice.
const koshi_lattice_arc *koshi_lattice_arcs(const koshi_lattice *lattice, size_t *len);

// Where each state's arcs are: those of state s run from `arcs[offsets[s]]` to before
// `arcs[offsets[s + 1]]`, so there is one entry more than states. Otherwise as koshi_lattice_arcs.
const uint32_t *koshi_lattice_arc_offsets(const koshi_lattice *lattice, size_t *len);

// The cost of ending in each state. Otherwise as koshi_lattice_arcs.
const koshi_lattice_cost *koshi_lattice_final_costs(const koshi_lattice *lattice, size_t *len);

// What the phrases of koshi_channel_set_bias cost on each arc, in the order of koshi_lattice_arcs; not
// part of the arcs' graph costs. Of length 0 where there were none, and in a lattice that was made of
// another one: all that chooses between paths counts bias costs with the graph costs, and all that
// makes a lattice adds them to its graph costs, but for koshi_lattice_prune and koshi_lattice_scale,
// which keep them apart. Written lattices have the graph costs alone. Otherwise as koshi_lattice_arcs.
const float *koshi_lattice_bias_costs(const koshi_lattice *lattice, size_t *len);

// What the phrases cost where a path ends in each state; 0 where it is not final. Otherwise as
// koshi_lattice_bias_costs.
const float *koshi_lattice_final_bias_costs(const koshi_lattice *lattice, size_t *len);

// The time of each state: the number of frames before it. Of length 0 where paths to one state
// differ in frames. Otherwise as koshi_lattice_arcs.
const uint32_t *koshi_lattice_times(const koshi_lattice *lattice, size_t *len);

// The transition-ids on arc number `arc`: its string in a compact lattice, its input label unless
// that is epsilon in a raw one. NULL and 0 if there is no such arc. Otherwise as koshi_lattice_arcs.
const int32_t *koshi_lattice_string(const koshi_lattice *lattice, size_t arc, size_t *len);

// The transition-ids that follow where a path ends in `state`: none in a raw lattice. NULL and 0 if
// there is no such state. Otherwise as koshi_lattice_arcs.
const int32_t *koshi_lattice_final_string(const koshi_lattice *lattice, size_t state, size_t *len);

// The path of least graph cost + acoustic_scale * acoustic cost, in *path. Ties: the lowest final
// state, and from there back the lowest arc number. Empty without any path.
koshi_status koshi_lattice_best_path(const koshi_lattice *lattice,
                                     float acoustic_scale,
                                     koshi_path **path,
                                     koshi_error **err);

// The arcs and final states on paths whose cost, at `acoustic_scale`, is at most `beam` above the
// best one's, in *pruned. `beam` is 0 or more, +inf too. The best path always stays.
koshi_status koshi_lattice_prune(const koshi_lattice *lattice,
                                 float beam,
                                 float acoustic_scale,
                                 koshi_lattice **pruned,
                                 koshi_error **err);

// The lattice with graph costs multiplied by `graph` and acoustic costs by `acoustic`, rounded once,
// in *scaled. The scale that koshi_lattice_info tells stays. KOSHI_E_ARGUMENT if a product is not finite.
koshi_status koshi_lattice_scale(const koshi_lattice *lattice,
                                 float graph,
                                 float acoustic,
                                 koshi_lattice **scaled,
                                 koshi_error **err);

// The lattice with `scale` times its bias costs added to the graph costs and none left apart, in
// *biased: with 1 the costs that the search went by, with 0 those of a lattice that knows of no
// phrases. KOSHI_E_ARGUMENT if the scale or a cost is not finite.
koshi_status koshi_lattice_apply_bias(const koshi_lattice *lattice,
                                      float scale,
                                      koshi_lattice **biased,
                                      koshi_error **err);

// Writes `lattice` as Kaldi does in a file, behind the key and a space, in *buffer. `format` is a
// koshi_lattice_format. Acoustic costs are written without the acoustic scale.
koshi_status koshi_lattice_to_memory(const koshi_lattice *lattice,
                                     int32_t format,
                                     koshi_buffer **buffer,
                                     koshi_error **err);

// Reads a lattice of either form and format from `size` bytes at `data` into *lattice, sorts and trims
// it. KOSHI_E_FORMAT with the byte offset for anything else, for a cycle and for bytes that follow.
koshi_status koshi_lattice_from_memory(const uint8_t *data,
                                       size_t size,
                                       koshi_lattice **lattice,
                                       koshi_error **err);

// Counts `lattice` once more and returns it; NULL for a bad handle.
koshi_lattice *koshi_lattice_ref(const koshi_lattice *lattice);

// Takes back one count of `lattice`; the last one frees it. NULL is fine.
koshi_status koshi_lattice_free(koshi_lattice *lattice);

// Fills *config, of `size` bytes, with the defaults.
koshi_status koshi_endpoint_config_init(koshi_endpoint_config *config, size_t size, koshi_error **err);

// Lets the channels of `decoder` look for end points from their next koshi_channel_begin on. `silence`
// lists `num_silence` phones or labels, as config->silence says; they are copied. `config` NULL: no end
// points, as at first. KOSHI_E_CONFIG names an option out of its range; KOSHI_E_ARGUMENT a label that is
// not above 0, a phone that the model has not, or phones where the graph was read without a model.
koshi_status koshi_decoder_set_endpoint_rules(const koshi_decoder *decoder,
                                              const koshi_endpoint_config *config,
                                              const int32_t *silence,
                                              size_t num_silence,
                                              koshi_error **err);

// The end point of the utterance in *endpoint of `size` bytes, or a rule of 0 if none was found; with
// segments, that of the segment that was closed last. KOSHI_E_STATE if the channel has not begun.
koshi_status koshi_channel_endpoint(const koshi_channel *channel,
                                    koshi_endpoint *endpoint,
                                    size_t size,
                                    koshi_error **err);

// How many segments end points have closed since begin (KOSHI_ENDPOINT_SEGMENT): they are numbered from
// 0, so this is the number of the open one. -1 for a bad handle or a channel at work.
int64_t koshi_channel_num_segments(const koshi_channel *channel);

// Closed segment `number`, from 0: its end in *endpoint of `size` bytes, its best path in *path and its raw
// lattice in *lattice, to a final state where one was reached; each may be NULL. Times of the path's words
// count from koshi_channel_begin; in the lattice they count from the segment's first frame,
// endpoint->first_frame. Segments are kept until the next begin, the last segments_kept of them.
// KOSHI_E_ARGUMENT if it is not closed; KOSHI_E_STATE if it is not kept any more.
koshi_status koshi_channel_segment(const koshi_channel *channel,
                                   uint64_t number,
                                   koshi_endpoint *endpoint,
                                   size_t size,
                                   koshi_path **path,
                                   koshi_lattice **lattice,
                                   koshi_error **err);

// Fills *config, of `size` bytes, with the defaults.
koshi_status koshi_determinize_config_init(koshi_determinize_config *config, size_t size, koshi_error **err);

// The compact lattice with one path for each word sequence of `lattice` within the beam, with the costs
// and transition-ids of its best alignment, in *determinized: deterministic on words, free of epsilons,
// as Kaldi's DeterminizeLatticePhonePrunedWrapper makes it. A compact lattice goes through its raw form.
// Without `transitions` (NULL) there is no pass on phones. `config` may be NULL: the defaults, at the
// acoustic scale of the search that made the lattice (1 for one that was read).
//
// KOSHI_OK_PARTIAL if the memory did not suffice for the beam: *effective_beam is the one within which the
// result is whole, and the best path is in it always. Else *effective_beam is the beam. It may be NULL.
// KOSHI_E_CONFIG; KOSHI_E_ARGUMENT for a transition-id that the model has not.
koshi_status koshi_lattice_determinize(const koshi_lattice *lattice,
                                       const koshi_transitions *transitions,
                                       const koshi_determinize_config *config,
                                       koshi_lattice **determinized,
                                       float *effective_beam,
                                       koshi_error **err);

// Lets the lattice of `channel` be determinized while the utterance grows, this one and those that
// follow: koshi_channel_settle and koshi_channel_compact_lattice then work. `transitions` may be NULL, and
// options are those of koshi_lattice_determinize. `config` may be NULL: the defaults, at the decoder's
// acoustic_scale and with its lattice_beam as beam. Any state; what was settled before is done anew.
// KOSHI_E_CONFIG where word_determinize is 0 or acoustic_scale is not the decoder's.
koshi_status koshi_channel_set_determinize(koshi_channel *channel,
                                           const koshi_transitions *transitions,
                                           const koshi_determinize_config *config,
                                           koshi_error **err);

// Determinizes what has become certain of the lattice since the last call, so that little is left for
// koshi_channel_compact_lattice. To be called from time to time while rows are pushed: each second of speech,
// say; where they are queued (koshi_channel_submit) the decoder's threads do it as they search. Results do
// not depend on it but for paths outside the beam. KOSHI_E_STATE if the channel has not begun, or without
// koshi_channel_set_determinize.
koshi_status koshi_channel_settle(koshi_channel *channel, koshi_error **err);

// The compact lattice now, in *lattice: one path for each word sequence of what koshi_channel_lattice gives
// that lies within the beam, with the costs and transition-ids of its best alignment. Where rows were queued,
// or koshi_channel_settle has been called on the way, the time does not grow with the utterance, but for
// copying the result. Before finish too. *effective_beam, which may be NULL, and KOSHI_OK_PARTIAL are as for
// koshi_lattice_determinize. Errors are as for koshi_channel_settle.
koshi_status koshi_channel_compact_lattice(koshi_channel *channel,
                                           int32_t use_final,
                                           koshi_lattice **lattice,
                                           float *effective_beam,
                                           koshi_error **err);

// Bounds the memory of endless streams, for this utterance and those that follow. From time to time what
// all paths have in common is committed: of those frames words, times and costs are kept (8 bytes a word),
// while lattices, and the input labels of paths, begin behind them. Where paths have nothing in common for
// `commit_frames` frames, the best path is committed all the same, and paths that part from it before are
// dropped; koshi_search_stats counts that in forced_commits. 0 frames: nothing is committed any more (the
// default); else 256 at least, or KOSHI_E_CONFIG. Results do not depend on backend or pushes. Turned
// on in the middle of an utterance, it takes up what is there at least 64 frames later.
//
// The lattices of the last `lattice_frames` committed frames are kept until
// koshi_channel_committed_lattice hands them out; older ones are dropped. 0: none is kept. A segment that an
// end point closes (KOSHI_ENDPOINT_SEGMENT) drops those of its frames.
koshi_status koshi_channel_set_commit(koshi_channel *channel,
                                      uint64_t commit_frames,
                                      uint64_t lattice_frames,
                                      koshi_error **err);

// Frames that have been committed since begin: lattices begin behind them. -1 for a bad handle or a
// channel at work.
int64_t koshi_channel_committed_frames(const koshi_channel *channel);

// The raw lattice of the oldest committed frames that have not been handed out or dropped, in *lattice, and
// the frame where it begins in *first_frame, which may be NULL; the channel forgets it. *lattice becomes
// NULL where there is none. Each begins in the state where the one before ends, and ends in one state, at
// no cost; its times count from its own beginning. KOSHI_E_STATE if the channel has not begun.
koshi_status koshi_channel_committed_lattice(koshi_channel *channel,
                                             koshi_lattice **lattice,
                                             uint64_t *first_frame,
                                             koshi_error **err);

// The lattice in raw form, in *raw: an arc for each transition-id of a compact lattice's strings, the
// word and the costs on the first one. A copy if it is raw already.
koshi_status koshi_lattice_to_raw(const koshi_lattice *lattice, koshi_lattice **raw, koshi_error **err);

// The lattice in compact form, in *compact: chains of a raw lattice's arcs with at most one word become one
// arc. Words keep all of their alignments; koshi_lattice_determinize leaves each word sequence its best
// one. A copy if it is compact already.
koshi_status koshi_lattice_to_compact(const koshi_lattice *lattice,
                                      koshi_lattice **compact,
                                      koshi_error **err);

// The compact lattice with costs and common beginnings of strings as near to the start as they can
// stand, in *pushed: the same words, transition-ids and, but for rounding, costs on every path. Costs are
// pushed by their totals at `acoustic_scale`. KOSHI_E_UNSUPPORTED for a raw lattice.
koshi_status koshi_lattice_push(const koshi_lattice *lattice,
                                float acoustic_scale,
                                koshi_lattice **pushed,
                                koshi_error **err);

// The compact lattice with strings and costs pushed towards the start and equal states merged, in
// *minimized: the same words, costs (but for rounding, and `delta`) and transition-ids with as few states
// as a deterministic lattice can have. Costs are compared at `acoustic_scale`, within `delta` (Kaldi has
// 1/1024). KOSHI_E_UNSUPPORTED for a raw lattice, KOSHI_E_CONFIG for a delta that is negative or not finite.
koshi_status koshi_lattice_minimize(const koshi_lattice *lattice,
                                    float acoustic_scale,
                                    float delta,
                                    koshi_lattice **minimized,
                                    koshi_error **err);

// The lattice as a JSON object in *buffer: "compact", "num_frames", "acoustic_scale", "reached_final";
// "states", each with its "time" and, if a path may end there, "final" ("graph", "acoustic",
// "transition_ids"); "arcs", each with "from", "to", "word", "text", "graph", "acoustic", "transition_ids".
// State 0 is the start; acoustic costs are without the acoustic scale; "text" is left out where `symbols`
// is NULL. KOSHI_E_ARGUMENT if a word has no symbol.
koshi_status koshi_lattice_to_json(const koshi_lattice *lattice,
                                   const koshi_symbols *symbols,
                                   koshi_buffer **buffer,
                                   koshi_error **err);

// The lattice as a graph in Graphviz's language in *buffer, to look at ("dot -Tsvg"): states with their
// times, final ones in double circles, arcs with word, graph and acoustic cost, and frames. A word without
// a symbol, and every word where `symbols` is NULL, is a number.
koshi_status koshi_lattice_to_dot(const koshi_lattice *lattice,
                                  const koshi_symbols *symbols,
                                  koshi_buffer **buffer,
                                  koshi_error **err);

// Fills *options, of `size` bytes, with the defaults.
koshi_status koshi_align_options_init(koshi_align_options *options, size_t size, koshi_error **err);

// Reads a table such as Kaldi's word_boundary.int, lines of a phone and one of nonword, begin, end,
// internal, singleton, from the file that a Kaldi rxfilename names (a path, or "command |" where commands
// are allowed) into *boundary. KOSHI_E_IO; KOSHI_E_FORMAT names file, byte and line.
koshi_status koshi_word_boundary_read(const char *path, koshi_word_boundary **boundary, koshi_error **err);

// As koshi_word_boundary_read, from `size` bytes at `data`, which are not needed afterwards.
koshi_status koshi_word_boundary_from_memory(const uint8_t *data,
                                             size_t size,
                                             koshi_word_boundary **boundary,
                                             koshi_error **err);

// Counts `boundary` once more and returns it; NULL for a bad handle.
koshi_word_boundary *koshi_word_boundary_ref(const koshi_word_boundary *boundary);

// Takes back one count of `boundary`; the last one frees it. NULL is fine.
koshi_status koshi_word_boundary_free(koshi_word_boundary *boundary);

// Reads a table such as Kaldi's align_lexicon.int, lines of a word, the word that will stand for it, and
// phones (word 0 is silence), from the file that a Kaldi rxfilename names into *lexicon. KOSHI_E_IO;
// KOSHI_E_FORMAT names file, byte and line.
koshi_status koshi_align_lexicon_read(const char *path, koshi_align_lexicon **lexicon, koshi_error **err);

// As koshi_align_lexicon_read, from `size` bytes at `data`, which are not needed afterwards.
koshi_status koshi_align_lexicon_from_memory(const uint8_t *data,
                                             size_t size,
                                             koshi_align_lexicon **lexicon,
                                             koshi_error **err);

// Counts `lexicon` once more and returns it; NULL for a bad handle.
koshi_align_lexicon *koshi_align_lexicon_ref(const koshi_align_lexicon *lexicon);

// Takes back one count of `lexicon`; the last one frees it. NULL is fine.
koshi_status koshi_align_lexicon_free(koshi_align_lexicon *lexicon);

// Aligns a lattice with its words by the kinds of phones, into *aligned: each arc is one word, or silence
// without a word, with exactly its transition-ids; paths keep words, transition-ids and costs. A raw
// lattice is taken in its compact form. `options` may be NULL for the defaults.
//
// *alignment, which may be NULL, says how far it came: a koshi_alignment. If not to the end the call
// answers KOSHI_OK_PARTIAL and logs a warning that says why: the utterance was cut off, so that the last
// words are partial, or lattice, model and table do not fit, and *aligned is the lattice as it was.
koshi_status koshi_lattice_align_words(const koshi_lattice *lattice,
                                       const koshi_transitions *transitions,
                                       const koshi_word_boundary *boundary,
                                       const koshi_align_options *options,
                                       koshi_lattice **aligned,
                                       int32_t *alignment,
                                       koshi_error **err);

// As koshi_lattice_align_words, by the pronunciations of words: each arc is a word, or silence, with exactly
// the transition-ids of one of its pronunciations, and words become those that the lexicon has for them.
// A path that the lexicon cannot explain is left out, unless it is the best one: then, or if a word is not
// in the lexicon, *aligned is the lattice as it was.
koshi_status koshi_lattice_align_words_lexicon(const koshi_lattice *lattice,
                                               const koshi_transitions *transitions,
                                               const koshi_align_lexicon *lexicon,
                                               const koshi_align_options *options,
                                               koshi_lattice **aligned,
                                               int32_t *alignment,
                                               koshi_error **err);

// Fills *config, of `size` bytes, with the defaults.
koshi_status koshi_words_config_init(koshi_words_config *config, size_t size, koshi_error **err);

// Fills *format, of `size` bytes, with the defaults.
koshi_status koshi_ctm_format_init(koshi_ctm_format *format, size_t size, koshi_error **err);

// The words of least expected error of a lattice with times and confidences, in *words (Kaldi's
// lattice-to-ctm-conf). Times mean something in a lattice that koshi_lattice_align_words has aligned.
// `config` may be NULL: the defaults, at the acoustic scale of the search that made the lattice (1 for one
// that was read). A lattice without paths has no words. KOSHI_E_ARGUMENT where paths to one state differ
// in frames, or a scale or a scaled cost is not finite.
koshi_status koshi_lattice_words(const koshi_lattice *lattice,
                                 const koshi_words_config *config,
                                 koshi_words **words,
                                 koshi_error **err);

// As koshi_lattice_words, beginning from the `len` words at `hypothesis` in place of the best path: with
// decode_mbr 0, these words with their times and confidences; a word that the lattice does not have in
// its place has confidence 0.
koshi_status koshi_lattice_words_of(const koshi_lattice *lattice,
                                    const int32_t *hypothesis,
                                    size_t len,
                                    const koshi_words_config *config,
                                    koshi_words **words,
                                    koshi_error **err);

// The words of the best path of an aligned lattice with the times of their arcs, in *words: confidences
// are 1, and there are no bins. With `keep_silence` not 0, arcs without a word are there as word 0.
koshi_status koshi_lattice_best_words(const koshi_lattice *lattice,
                                      float acoustic_scale,
                                      int32_t keep_silence,
                                      koshi_words **words,
                                      koshi_error **err);

// The words in order, and their number in *len, which may be NULL. NULL and 0 for a bad handle. The
// array lives as long as the words.
const koshi_word *koshi_words_list(const koshi_words *words, size_t *len);

// The bins of the confusion network. Otherwise as koshi_words_list.
const koshi_word_bin *koshi_words_bins(const koshi_words *words, size_t *len);

// The alternatives of all bins. Otherwise as koshi_words_list.
const koshi_word_alternative *koshi_words_alternatives(const koshi_words *words, size_t *len);

// Expected number of word errors, if the lattice is right about its probabilities; NaN for a bad handle.
double koshi_words_expected_errors(const koshi_words *words);

// Lines "key 1 start duration word confidence", times in seconds, in *buffer. `format` may be NULL for
// the defaults; without `symbols` words are written as numbers. `key` holds no white space.
// KOSHI_E_ARGUMENT if a word has no symbol.
koshi_status koshi_words_to_ctm(const koshi_words *words,
                                const char *key,
                                const koshi_ctm_format *format,
                                const koshi_symbols *symbols,
                                koshi_buffer **buffer,
                                koshi_error **err);

// The words as a JSON object in *buffer: "utterance" (the key, left out where it is NULL), "words" (each
// with "word", "text", "start", "duration", "confidence", "bin"), "expected_errors", and "bins" (each with
// "start", "duration" and "alternatives" of "word", "text", "posterior"). Times are in seconds; "text" is
// left out where `symbols` is NULL. KOSHI_E_ARGUMENT if a word has no symbol.
koshi_status koshi_words_to_json(const koshi_words *words,
                                 const char *key,
                                 float frame_shift,
                                 const koshi_symbols *symbols,
                                 koshi_buffer **buffer,
                                 koshi_error **err);

// Counts `words` once more and returns it; NULL for a bad handle.
koshi_words *koshi_words_ref(const koshi_words *words);

// Takes back one count of `words`; the last one frees it. NULL is fine.
koshi_status koshi_words_free(koshi_words *words);

// Reads a language model from the file that a Kaldi rxfilename names into *model. Either an ARPA
// file, whose words get their ids from `symbols` (NULL: words are ids; n-grams with a word that has
// none are left out; words that are not listed have the probability of `<unk>`, if there is one); or an
// OpenFst file of type vector or const with standard arcs (Kaldi's G.fst), whose output labels are the
// words, 0 and the id of #0 in `symbols` meaning none. KOSHI_E_IO; KOSHI_E_FORMAT names the line, or
// the byte; KOSHI_E_GRAPH for an FST without start state, with bad costs or with a cycle without words.
koshi_status koshi_language_model_read(const char *path,
                                       const koshi_symbols *symbols,
                                       koshi_language_model **model,
                                       koshi_error **err);

// As koshi_language_model_read, from `size` bytes at `data`, which are not needed afterwards.
koshi_status koshi_language_model_from_memory(const uint8_t *data,
                                              size_t size,
                                              const koshi_symbols *symbols,
                                              koshi_language_model **model,
                                              koshi_error **err);

// The cost of the sentence of `len` words, its end included, in *cost; +inf if the model does not
// have it.
koshi_status koshi_language_model_cost(const koshi_language_model *model,
                                       const int32_t *words,
                                       size_t len,
                                       double *cost,
                                       koshi_error **err);

// Counts `model` once more and returns it; NULL for a bad handle.
koshi_language_model *koshi_language_model_ref(const koshi_language_model *model);

// Takes back one count of `model`; the last one frees it. NULL is fine.
koshi_status koshi_language_model_free(koshi_language_model *model);

// The lattice whose paths cost `scale` * (new_model - old_model) more in their graph cost, where the
// models stand for the costs that they give to a path's words and the end behind them, in *rescored.
// Either model may be NULL, which costs nothing. Paths whose words a model does not have are dropped;
// without any left the lattice has no states. Deterministic if `lattice` is; it has its form, raw or
// compact. KOSHI_E_ARGUMENT if a cost is not finite.
koshi_status koshi_lattice_rescore(const koshi_lattice *lattice,
                                   const koshi_language_model *old_model,
                                   const koshi_language_model *new_model,
                                   float scale,
                                   koshi_lattice **rescored,
                                   koshi_error **err);

// Finds the `n` best paths of different words in *paths, by increasing graph cost + acoustic_scale *
// acoustic cost; fewer where the lattice has fewer, none where it has no path. Of a word sequence's own
// paths the best is given. Sequences of equal cost come in ascending order of their words. Works on
// raw and compact lattices alike, determinized or not. KOSHI_OK_PARTIAL if the list ends early, where
// it would take more than 2 GiB.
koshi_status koshi_lattice_nbest(const koshi_lattice *lattice,
                                 size_t n,
                                 float acoustic_scale,
                                 koshi_paths **paths,
                                 koshi_error **err);

// Number of paths; -1 for a bad handle.
int64_t koshi_paths_len(const koshi_paths *paths);

// Path number `index`, from 0, as a handle of its own, to be freed; NULL for a bad handle or index.
koshi_path *koshi_paths_at(const koshi_paths *paths, size_t index);

// The posterior of path number `index`: the share of its words in the whole lattice at the acoustic
// scale of the list, all paths of these words together. Those of a list sum to at most 1. NaN for a
// bad handle or index.
double koshi_paths_posterior(const koshi_paths *paths, size_t index);

// Writes the list as JSON in *buffer: `{"paths": [...]}`, each path with `words` (each with `word`,
// `text`, unless `symbols` is NULL, and the `frame` where it starts), `graph_cost`, `acoustic_cost`
// (without the acoustic scale), `total_cost`, `posterior` and `transition_ids`; and `cut_short`, whether
// the list ends early. KOSHI_E_ARGUMENT if a word has no symbol.
koshi_status koshi_paths_to_json(const koshi_paths *paths,
                                 const koshi_symbols *symbols,
                                 koshi_buffer **buffer,
                                 koshi_error **err);

// Counts `paths` once more and returns it; NULL for a bad handle.
koshi_paths *koshi_paths_ref(const koshi_paths *paths);

// Takes back one count of `paths`; the last one frees it. NULL is fine.
koshi_status koshi_paths_free(koshi_paths *paths);

// The lattice of all paths of both lattices, in *united. Word sequences that both have come twice until
// it is determinized. Compact if either lattice is; its acoustic scale is that of `lattice`. To join many,
// join two of about equal size at a time: each call copies both.
koshi_status koshi_lattice_union(const koshi_lattice *lattice,
                                 const koshi_lattice *other,
                                 koshi_lattice **united,
                                 koshi_error **err);

// The average number of arcs that cross a frame of `lattice`; 1 without frames, NaN for a bad handle.
double koshi_lattice_depth(const koshi_lattice *lattice);

// The least number of word errors (substitutions, insertions and deletions) between a path of
// `lattice` and the `len` words of a reference, in *errors, and such a path in *path, which may be
// NULL: of those with equally many errors the cheapest at the lattice's own acoustic scale.
// KOSHI_E_ARGUMENT for a lattice without any path, and for a word of the reference that is not
// above 0. Takes memory for the states times the words.
koshi_status koshi_lattice_oracle(const koshi_lattice *lattice,
                                  const int32_t *words,
                                  size_t len,
                                  uint32_t *errors,
                                  koshi_path **path,
                                  koshi_error **err);

// The bytes, koshi_buffer_size of them; NULL for a bad handle. They live as long as the buffer.
const uint8_t *koshi_buffer_data(const koshi_buffer *buffer);

// Number of bytes; -1 for a bad handle.
int64_t koshi_buffer_size(const koshi_buffer *buffer);

// Counts `buffer` once more and returns it; NULL for a bad handle.
koshi_buffer *koshi_buffer_ref(const koshi_buffer *buffer);

// Takes back one count of `buffer`; the last one frees it. NULL is fine.
koshi_status koshi_buffer_free(koshi_buffer *buffer);

// Allows (not 0) or forbids (0) commands in the names of tables and files, as in
// "ark:gunzip -c a.gz |", for the whole process. They are forbidden until a program allows them:
// whoever may choose a name may otherwise run anything.
koshi_status koshi_tables_allow_commands(int32_t allow, koshi_error **err);

// The numbers of `matrix`, row after row without gaps, and how many rows and columns there are in
// *rows and *columns, which may be NULL. NULL and 0 for a bad handle. They live as long as the matrix.
const float *koshi_matrix_data(const koshi_matrix *matrix, size_t *rows, size_t *columns);

// Counts `matrix` once more and returns it; NULL for a bad handle.
koshi_matrix *koshi_matrix_ref(const koshi_matrix *matrix);

// Takes back one count of `matrix`; the last one frees it. NULL is fine.
koshi_status koshi_matrix_free(koshi_matrix *matrix);

// Opens the table of matrices that a Kaldi rspecifier names ("ark:a.ark", "scp:a.scp"), in *reader.
// Its entries may be compressed, of binary32 or binary64, binary or text. KOSHI_E_ARGUMENT for what is
// no rspecifier, KOSHI_E_IO, KOSHI_E_UNSUPPORTED for a command unless commands are allowed.
koshi_status koshi_matrix_reader_open(const char *rspecifier,
                                      koshi_matrix_reader **reader,
                                      koshi_error **err);

// Reads the next entry: its key in *key, which lives until the next call on this reader, and its
// matrix, to be freed, in *matrix. Both become NULL after the last entry. KOSHI_E_FORMAT names file
// and byte.
koshi_status koshi_matrix_reader_next(koshi_matrix_reader *reader,
                                      const char **key,
                                      koshi_matrix **matrix,
                                      koshi_error **err);

// Closes and frees `reader`. NULL is fine.
koshi_status koshi_matrix_reader_free(koshi_matrix_reader *reader);

// Opens the table of lattices that a Kaldi rspecifier names, in *reader. Otherwise as
// koshi_matrix_reader_open.
koshi_status koshi_lattice_reader_open(const char *rspecifier,
                                       koshi_lattice_reader **reader,
                                       koshi_error **err);

// Reads the next entry: its key in *key, which lives until the next call on this reader, and its
// lattice, sorted and to be freed, in *lattice. Both become NULL after the last entry.
koshi_status koshi_lattice_reader_next(koshi_lattice_reader *reader,
                                       const char **key,
                                       koshi_lattice **lattice,
                                       koshi_error **err);

// Closes and frees `reader`. NULL is fine.
koshi_status koshi_lattice_reader_free(koshi_lattice_reader *reader);

// Opens the table of lattices that a Kaldi wspecifier names ("ark:a.ark", "ark,t:-",
// "ark,scp:a.ark,a.scp"), in *writer. KOSHI_E_ARGUMENT for what is no wspecifier, KOSHI_E_IO,
// KOSHI_E_UNSUPPORTED for a command unless commands are allowed.
koshi_status koshi_lattice_writer_open(const char *wspecifier,
                                       koshi_lattice_writer **writer,
                                       koshi_error **err);

// Writes `lattice` under `key`, a word without white space, in the lattice's own form.
koshi_status koshi_lattice_writer_write(koshi_lattice_writer *writer,
                                        const char *key,
                                        const koshi_lattice *lattice,
                                        koshi_error **err);

// Ends the table; only this reports a failure of its last writes. The writer is still to be freed.
koshi_status koshi_lattice_writer_close(koshi_lattice_writer *writer, koshi_error **err);

// Frees `writer`, and closes it if that was not done; a failure then only goes to the log. NULL is
// fine.
koshi_status koshi_lattice_writer_free(koshi_lattice_writer *writer);

// Opens a table of lists of integers, in *writer. Otherwise as koshi_lattice_writer_open.
koshi_status koshi_int_writer_open(const char *wspecifier, koshi_int_writer **writer, koshi_error **err);

// Writes the `len` integers at `values` under `key`, a word without white space.
koshi_status koshi_int_writer_write(koshi_int_writer *writer,
                                    const char *key,
                                    const int32_t *values,
                                    size_t len,
                                    koshi_error **err);

// Ends the table; only this reports a failure of its last writes. The writer is still to be freed.
koshi_status koshi_int_writer_close(koshi_int_writer *writer, koshi_error **err);

// Frees `writer`, and closes it if that was not done; a failure then only goes to the log. NULL is
// fine.
koshi_status koshi_int_writer_free(koshi_int_writer *writer);

// Fills *parts of `size` bytes with the defaults: an example without anything.
koshi_status koshi_example_parts_init(koshi_example_parts *parts, size_t size, koshi_error **err);

// Makes an example of its parts, in *example. KOSHI_E_ARGUMENT names a number that is not finite and so
// cannot be compressed. Whether the parts fit together is for koshi_example_check to say.
koshi_status koshi_example_new(const koshi_example_parts *parts, koshi_example **example, koshi_error **err);

// Reads an example from `size` bytes as koshi_example_to_memory writes them, in *example.
koshi_status koshi_example_from_memory(const uint8_t *data,
                                       size_t size,
                                       koshi_example **example,
                                       koshi_error **err);

// Writes an example as Kaldi does in a file, behind the key and a space, in *buffer: binary, or text if
// `binary` is 0.
koshi_status koshi_example_to_memory(const koshi_example *example,
                                     int32_t binary,
                                     koshi_buffer **buffer,
                                     koshi_error **err);

// Describes an example in *info of `size` bytes.
koshi_status koshi_example_info(const koshi_example *example,
                                koshi_example_summary *info,
                                size_t size,
                                koshi_error **err);

// The labels of all frames, one frame after the other, and their number in *len, which may be NULL. NULL
// and 0 for a bad handle. The array lives as long as the example, or until koshi_example_set_label.
const koshi_label *koshi_example_labels(const koshi_example *example, size_t *len);

// Where each frame's labels are: those of frame f run from `labels[offsets[f]]` to before
// `labels[offsets[f + 1]]`, so there is one entry more than frames. Otherwise as koshi_example_labels.
const uint32_t *koshi_example_label_offsets(const koshi_example *example, size_t *len);

// The speaker vector, and its length in *len, which may be NULL. NULL and 0 for a bad handle. It lives as
// long as the example.
const float *koshi_example_speaker(const koshi_example *example, size_t *len);

// The features, row after row without gaps, and how many rows and columns there are in *rows and
// *columns, which may be NULL. They are expanded when this is first called. NULL and 0 for a bad handle
// or for want of memory. They live as long as the example.
const float *koshi_example_frames(const koshi_example *example, size_t *rows, size_t *columns);

// The label of greatest weight of labelled frame `frame`, of equal ones the first: its pdf in *pdf and
// its weight in *weight, which may be NULL. Both are -1 where the frame has no label above that weight.
// KOSHI_E_ARGUMENT if there is no such frame.
koshi_status koshi_example_label(const koshi_example *example,
                                 size_t frame,
                                 int32_t *pdf,
                                 float *weight,
                                 koshi_error **err);

// Gives labelled frame `frame` one label in place of those that it has.
koshi_status koshi_example_set_label(koshi_example *example,
                                     size_t frame,
                                     int32_t pdf,
                                     float weight,
                                     koshi_error **err);

// Cuts a smaller example out of `example`, in *cut: `num_frames` labelled frames from `start_frame` on,
// with `left_context` rows before them and `right_context` after them. A start below 0 is the first
// frame; -1 for another number stands for all that there is. KOSHI_OK_PARTIAL when there was less than
// that: *cut then has what there was. KOSHI_E_ARGUMENT if the start is past the last labelled frame,
// KOSHI_E_SHAPE if the example has too few rows.
koshi_status koshi_example_extract(const koshi_example *example,
                                   int32_t start_frame,
                                   int32_t num_frames,
                                   int32_t left_context,
                                   int32_t right_context,
                                   koshi_example **cut,
                                   koshi_error **err);

// Says what is wrong with an example: KOSHI_E_SHAPE for a left context below 0 or fewer rows than its
// left context and labels need, KOSHI_E_ARGUMENT for a negative pdf, or a weight or an element of the
// speaker vector that is not finite.
koshi_status koshi_example_check(const koshi_example *example, koshi_error **err);

// Frees an example. NULL is fine.
koshi_status koshi_example_free(koshi_example *example);

// Fills *parts of `size` bytes with the defaults: weight 1 and nothing else.
koshi_status koshi_degs_parts_init(koshi_degs_parts *parts, size_t size, koshi_error **err);

// Makes an example of its parts, in *degs. Whether they fit together is for koshi_degs_check to say.
koshi_status koshi_degs_new(const koshi_degs_parts *parts, koshi_degs **degs, koshi_error **err);

// Reads an example from `size` bytes as koshi_degs_to_memory writes them, in *degs.
koshi_status koshi_degs_from_memory(const uint8_t *data, size_t size, koshi_degs **degs, koshi_error **err);

// Writes an example as Kaldi does in a file, behind the key and a space, in *buffer: binary, or text if
// `binary` is 0. Features that were not read compressed are compressed.
koshi_status koshi_degs_to_memory(const koshi_degs *degs,
                                  int32_t binary,
                                  koshi_buffer **buffer,
                                  koshi_error **err);

// Describes a discriminative example in *info of `size` bytes.
koshi_status koshi_degs_info(const koshi_degs *degs,
                             koshi_degs_summary *info,
                             size_t size,
                             koshi_error **err);

// How much the example counts; NaN for a bad handle.
float koshi_degs_weight(const koshi_degs *degs);

// The numerator alignment, one transition-id a frame, and its length in *len, which may be NULL. NULL and
// 0 for a bad handle. It lives as long as the example.
const int32_t *koshi_degs_alignment(const koshi_degs *degs, size_t *len);

// The speaker vector. Otherwise as koshi_degs_alignment.
const float *koshi_degs_speaker(const koshi_degs *degs, size_t *len);

// The features, row after row without gaps, and how many rows and columns there are in *rows and
// *columns, which may be NULL. NULL and 0 for a bad handle or for want of memory. They live as long as
// the example.
const float *koshi_degs_frames(const koshi_degs *degs, size_t *rows, size_t *columns);

// The denominator, compact, sorted and trimmed, to be freed, in *lattice. KOSHI_E_ARGUMENT if it has a
// cycle.
koshi_status koshi_degs_lattice(const koshi_degs *degs, koshi_lattice **lattice, koshi_error **err);

// Says what is wrong with an example: KOSHI_E_ARGUMENT for a weight that is not above 0, an alignment
// without frames or with an id below 1, a lattice with a cycle or with paths of different lengths to one
// state, a speaker vector that is not finite; KOSHI_E_SHAPE for a lattice that is not as long as the
// alignment, or fewer rows than left context and alignment need.
koshi_status koshi_degs_check(const koshi_degs *degs, koshi_error **err);

// Counts `degs` once more and returns it; NULL for a bad handle.
koshi_degs *koshi_degs_ref(const koshi_degs *degs);

// Takes back one count of `degs`; the last one frees it. NULL is fine.
koshi_status koshi_degs_free(koshi_degs *degs);

// Opens the table of examples that a Kaldi rspecifier names ("ark:a.ark", "scp:a.scp"), in *reader.
// `kind`, a koshi_egs_kind, says what it holds. KOSHI_E_ARGUMENT for what is no rspecifier, KOSHI_E_IO,
// KOSHI_E_UNSUPPORTED for a command unless commands are allowed.
koshi_status koshi_egs_reader_open(const char *rspecifier,
                                   int32_t kind,
                                   koshi_egs_reader **reader,
                                   koshi_error **err);

// Reads the next entry: its key in *key, which lives until the next call on this reader, and its example,
// to be freed, in *example. Both become NULL after the last entry. KOSHI_E_FORMAT names file and byte,
// KOSHI_E_STATE says that the table is one of discriminative examples.
koshi_status koshi_egs_reader_next(koshi_egs_reader *reader,
                                   const char **key,
                                   koshi_example **example,
                                   koshi_error **err);

// As koshi_egs_reader_next, for a table of discriminative examples.
koshi_status koshi_egs_reader_next_degs(koshi_egs_reader *reader,
                                        const char **key,
                                        koshi_degs **degs,
                                        koshi_error **err);

// Closes and frees `reader`. NULL is fine.
koshi_status koshi_egs_reader_free(koshi_egs_reader *reader);

// Opens the table of examples that a Kaldi rspecifier names, to look them up by key, in *table. The
// options of the rspecifier say what is kept: "s" for a sorted archive, "s,cs" if keys are asked for in
// order too, "o" if each is asked for once. Otherwise as koshi_egs_reader_open.
koshi_status koshi_egs_table_open(const char *rspecifier,
                                  int32_t kind,
                                  koshi_egs_table **table,
                                  koshi_error **err);

// The example of `key`, to be freed, in *example; NULL there if the table does not have it.
koshi_status koshi_egs_table_find(koshi_egs_table *table,
                                  const char *key,
                                  koshi_example **example,
                                  koshi_error **err);

// As koshi_egs_table_find, for a table of discriminative examples.
koshi_status koshi_egs_table_find_degs(koshi_egs_table *table,
                                       const char *key,
                                       koshi_degs **degs,
                                       koshi_error **err);

// Closes and frees `table`. NULL is fine.
koshi_status koshi_egs_table_free(koshi_egs_table *table);

// Opens the table of examples that a Kaldi wspecifier names ("ark:a.ark", "ark,t:-",
// "ark,scp:a.ark,a.scp"; "t" is for text), in *writer. `kind`, a koshi_egs_kind, says what it will hold.
// KOSHI_E_ARGUMENT for what is no wspecifier, KOSHI_E_IO, KOSHI_E_UNSUPPORTED for a command unless
// commands are allowed.
koshi_status koshi_egs_writer_open(const char *wspecifier,
                                   int32_t kind,
                                   koshi_egs_writer **writer,
                                   koshi_error **err);

// Writes `example` under `key`, a word without white space.
koshi_status koshi_egs_writer_write(koshi_egs_writer *writer,
                                    const char *key,
                                    const koshi_example *example,
                                    koshi_error **err);

// As koshi_egs_writer_write, for a table of discriminative examples.
koshi_status koshi_egs_writer_write_degs(koshi_egs_writer *writer,
                                         const char *key,
                                         const koshi_degs *degs,
                                         koshi_error **err);

// Ends the table; only this reports a failure of its last writes. The writer is still to be freed.
koshi_status koshi_egs_writer_close(koshi_egs_writer *writer, koshi_error **err);

// Frees `writer`, and closes it if that was not done; a failure then only goes to the log. NULL is fine.
koshi_status koshi_egs_writer_free(koshi_egs_writer *writer);

// Makes an empty repository, in *repository, that holds up to `capacity` examples. More at once are
// accepted when it is empty, so with capacity 0 it never holds more than what one call brought, as
// Kaldi's.
koshi_status koshi_examples_repository_new(size_t capacity,
                                           koshi_examples_repository **repository,
                                           koshi_error **err);

// Hands the `count` examples over; waits as long as there is no room for all of them. They then belong to
// the repository and after that to whoever fetches them: do not free them. After an error all of them are
// still the caller's. KOSHI_E_ARGUMENT if one is given twice, KOSHI_E_STATE after
// koshi_examples_repository_done, KOSHI_E_CANCELLED after koshi_examples_repository_cancel or when the
// repository is freed meanwhile.
koshi_status koshi_examples_repository_accept(const koshi_examples_repository *repository,
                                              koshi_example *const *examples,
                                              size_t count,
                                              koshi_error **err);

// Says that nothing more will come. What is there can still be fetched.
koshi_status koshi_examples_repository_done(const koshi_examples_repository *repository, koshi_error **err);

// Ends everything: all who wait, on either side, get KOSHI_E_CANCELLED, and examples that nobody has
// fetched are freed.
koshi_status koshi_examples_repository_cancel(const koshi_examples_repository *repository, koshi_error **err);

// Fetches examples, at least one and up to `most`, into the array at `examples`, and their number into
// *count; waits as long as there is none. They are the caller's to free. *count is 0 once
// koshi_examples_repository_done was called and all were fetched. Each example is given once, in the
// order of acceptance.
koshi_status koshi_examples_repository_provide(const koshi_examples_repository *repository,
                                               koshi_example **examples,
                                               size_t most,
                                               size_t *count,
                                               koshi_error **err);

// Frees a repository with the examples in it; who waits gets KOSHI_E_CANCELLED. NULL is fine.
koshi_status koshi_examples_repository_free(koshi_examples_repository *repository);

// Fills *config, of `size` bytes, with the defaults.
koshi_status koshi_transducer_config_init(koshi_transducer_config *config, size_t size, koshi_error **err);

// Number of hypotheses; -1 for a bad handle.
int64_t koshi_hypotheses_len(const koshi_hypotheses *list);

// The labels of hypothesis `index`, without start symbol and blanks, and their number in *len, which
// may be NULL. NULL and 0 for a bad handle or index. The array lives as long as the list.
const int32_t *koshi_hypotheses_labels(const koshi_hypotheses *list, size_t index, size_t *len);

// For each label the frame at which it was taken, in the best of the alignments that were merged.
// Otherwise as koshi_hypotheses_labels.
const uint32_t *koshi_hypotheses_frames(const koshi_hypotheses *list, size_t index, size_t *len);

// For each label its log-probability by the transducer, in that alignment. Otherwise as
// koshi_hypotheses_labels.
const float *koshi_hypotheses_log_probs(const koshi_hypotheses *list, size_t index, size_t *len);

// For each label what the language model added, weighted. Otherwise as koshi_hypotheses_labels.
const float *koshi_hypotheses_lm_scores(const koshi_hypotheses *list, size_t index, size_t *len);

// For each label what phrases added or took back; what they only hold at the end is taken back
// from the score alone. Otherwise as koshi_hypotheses_labels.
const float *koshi_hypotheses_bias_scores(const koshi_hypotheses *list, size_t index, size_t *len);

// The score of hypothesis `index` by its search, a natural log; NaN for a bad handle or index.
double koshi_hypotheses_score(const koshi_hypotheses *list, size_t index);

// The score divided by the number of labels and the start symbol. Otherwise as koshi_hypotheses_score.
double koshi_hypotheses_normalised_score(const koshi_hypotheses *list, size_t index);

// The score with all blanks: another one than the score only after a greedy search. Otherwise as
// koshi_hypotheses_score.
double koshi_hypotheses_full_score(const koshi_hypotheses *list, size_t index);

// Share of hypothesis `index` in the probability of the whole list, by the scores: they add up to 1.
// Otherwise as koshi_hypotheses_score.
double koshi_hypotheses_posterior(const koshi_hypotheses *list, size_t index);

// 1 if hypothesis `index` has consumed all rows of a finished stream, else 0; -1 for a bad handle or
// index.
int32_t koshi_hypotheses_finished(const koshi_hypotheses *list, size_t index);

// Counts `list` once more and returns it; NULL for a bad handle.
koshi_hypotheses *koshi_hypotheses_ref(const koshi_hypotheses *list);

// Takes back one count of `list`; the last one frees it. NULL is fine.
koshi_status koshi_hypotheses_free(koshi_hypotheses *list);

// Makes a transducer of callbacks, in *transducer. `ops` is copied. `drop` runs once when `user_data` is
// no longer used: when the transducer and all its streams are freed and no call is at work any more, or when
// this call fails. KOSHI_E_CONFIG names a size that is out of its range.
koshi_status koshi_transducer_new(const koshi_transducer_ops *ops,
                                  void *user_data,
                                  koshi_drop_fn drop,
                                  koshi_transducer **transducer,
                                  koshi_error **err);

// Makes some phrases more likely, in streams and searches that begin from now on; those of an earlier
// call are forgotten. Greedy search does not look at them. KOSHI_E_CONFIG names a phrase without
// labels, with the blank or what is no label, or with a bonus below 0 or out of its range.
koshi_status koshi_transducer_set_bias(const koshi_transducer *transducer,
                                       const koshi_phrase *phrases,
                                       size_t num_phrases,
                                       koshi_error **err);

// Counts of `transducer`, in *calls of `size` bytes.
koshi_status koshi_transducer_call_counts(const koshi_transducer *transducer,
                                          koshi_transducer_calls *calls,
                                          size_t size,
                                          koshi_error **err);

// Searches `num_utterances` whole utterances together, with as few calls of the networks as if they were
// one. `config` NULL: the defaults. `utterance_size` is `sizeof utterances[0]`. Each utterance gets its
// own status, and in `hypotheses[i]` its result, NULL where it failed, be it that its rows cannot be read;
// what becomes of one does not touch the others, and its result is that of a stream alone. KOSHI_OK if all
// are KOSHI_OK, else KOSHI_OK_PARTIAL.
// A negative status is about the call itself: then nothing was done.
koshi_status koshi_transducer_search(const koshi_transducer *transducer,
                                     const koshi_transducer_config *config,
                                     koshi_transducer_utterance *utterances,
                                     size_t num_utterances,
                                     size_t utterance_size,
                                     koshi_hypotheses **hypotheses,
                                     koshi_error **err);

// Frees `transducer`. Its streams keep the callbacks and their data in use until they are freed too;
// nobody is waited for. NULL is fine.
koshi_status koshi_transducer_free(koshi_transducer *transducer);

// Makes a stream of `transducer` in *stream, ready for rows. `config` NULL: the defaults. KOSHI_E_CONFIG
// names an option out of its range.
koshi_status koshi_transducer_stream_new(const koshi_transducer *transducer,
                                         const koshi_transducer_config *config,
                                         koshi_transducer_stream **stream,
                                         koshi_error **err);

// Searches `frames` encoder rows of `dim` columns, `stride` elements apart, before it returns. However an
// utterance is cut into pushes, its result is the same. The rows are not needed afterwards.
// KOSHI_E_SHAPE if `dim` is not the transducer's encoder_dim, and KOSHI_E_STATE after finish: nothing
// changes. KOSHI_E_SCORES for NaN or +inf, with frame and label (as column); KOSHI_E_NO_TOKENS if nothing is
// allowed in a frame; KOSHI_E_CALLBACK; KOSHI_E_CANCELLED; KOSHI_E_LIMIT; KOSHI_E_NO_MEMORY: the
// utterance has failed, its states are released, and pushes answer the same, while
// koshi_transducer_stream_partial still tells what was found before.
koshi_status koshi_transducer_stream_push(koshi_transducer_stream *stream,
                                          const float *rows,
                                          size_t frames,
                                          size_t dim,
                                          size_t stride,
                                          koshi_error **err);

// The hypotheses now, in *hypotheses, and in *stable_labels, which may be NULL, how many labels of the first
// can no longer change. At any time, also after a failure. Costs as much as there are labels that
// koshi_transducer_stream_commit has not taken out.
koshi_status koshi_transducer_stream_partial(const koshi_transducer_stream *stream,
                                             koshi_hypotheses **hypotheses,
                                             size_t *stable_labels,
                                             koshi_error **err);

// Takes out the labels that all hypotheses share with their frames, so that nothing about them can change
// any more: a list of one hypothesis in *hypotheses, which may have no labels. Each label is handed out once;
// partial results and the result begin behind it, and its memory is used again. The search and the scores of
// later results, which are about the whole utterance, are as without this call. So an endless stream needs
// bounded memory if this is called now and then, with commit_frames set. The scores of *hypotheses are the
// sums of what its labels got. KOSHI_E_STATE after finish or the last rows; after a failure as
// koshi_transducer_stream_push.
koshi_status koshi_transducer_stream_commit(koshi_transducer_stream *stream,
                                            koshi_hypotheses **hypotheses,
                                            koshi_error **err);

// No more rows will come: the result, in *hypotheses. All states are released. KOSHI_OK_PARTIAL if
// max_expansions_per_frame struck, or if no hypothesis could be finished and the best unfinished ones are
// the result. KOSHI_E_STATE after a finish that gave a result; otherwise as koshi_transducer_stream_push.
koshi_status koshi_transducer_stream_finish(koshi_transducer_stream *stream,
                                            koshi_hypotheses **hypotheses,
                                            koshi_error **err);

// Stops the utterance before its next call of a network: pushes and finish, also one that is at work, answer
// KOSHI_E_CANCELLED from then on. May be called at any time from any thread, and never answers
// KOSHI_E_BUSY.
koshi_status koshi_transducer_stream_cancel(koshi_transducer_stream *stream, koshi_error **err);

// Frames pushed; -1 for a bad handle or a stream at work.
int64_t koshi_transducer_stream_num_frames(const koshi_transducer_stream *stream);

// Frees `stream` and releases its states. A call that is at work on it ends first and is not waited for.
// NULL is fine.
koshi_status koshi_transducer_stream_free(koshi_transducer_stream *stream);

// Pushes rows to `num_items` distinct streams of `transducer` together, with as few calls of the networks as
// if they were one. `item_size` is `sizeof items[0]`. Each item gets its own status, and what becomes of
// one does not touch the others: a bad handle, a stream that is in use or stands twice in `items`, or one of
// another transducer is that item's matter too. KOSHI_OK if all items succeeded, else KOSHI_OK_PARTIAL. A
// negative status is about the call itself: then no item was touched.
koshi_status koshi_transducer_advance(const koshi_transducer *transducer,
                                      koshi_transducer_item *items,
                                      size_t num_items,
                                      size_t item_size,
                                      koshi_error **err);

// Reads one supervision of Kaldi's, binary or text, end-to-end or not, into *supervision. `path` is a file,
// or what else Kaldi calls an rxfilename. KOSHI_E_IO; KOSHI_E_FORMAT; KOSHI_E_GRAPH for an FST that cannot
// be one of a supervision (epsilons, labels beyond the pdfs, no final state, a start state other than 0,
// and, unless end-to-end, paths of different length to one state or beyond the final ones); KOSHI_E_SHAPE
// where its frames are not as many as said; KOSHI_E_NO_MEMORY.
koshi_status koshi_supervision_read(const char *path, koshi_supervision **supervision, koshi_error **err);

// As koshi_supervision_read, from `size` bytes at `data`, which are not needed afterwards.
koshi_status koshi_supervision_from_memory(const uint8_t *data,
                                           size_t size,
                                           koshi_supervision **supervision,
                                           koshi_error **err);

// The bytes of a file that Kaldi and koshi_supervision_read read, binary or (binary 0) text, in *buffer.
koshi_status koshi_supervision_to_memory(const koshi_supervision *supervision,
                                         int32_t binary,
                                         koshi_buffer **buffer,
                                         koshi_error **err);

// Joins `n` supervisions into a minibatch of all their sequences, in order, in *merged. One alone stays as
// it is. KOSHI_E_SHAPE unless pdfs, weights and frames per sequence are equal and all are end-to-end or
// none; KOSHI_E_UNSUPPORTED for pdfs of alignments, unless end-to-end.
koshi_status koshi_supervision_merge(const koshi_supervision *const *supervisions,
                                     size_t n,
                                     koshi_supervision **merged,
                                     koshi_error **err);

// Number of sequences; -1 for a bad handle.
int64_t koshi_supervision_num_sequences(const koshi_supervision *supervision);

// Frames of each sequence; -1 for a bad handle.
int64_t koshi_supervision_frames_per_sequence(const koshi_supervision *supervision);

// Number of pdfs, which is that of the columns of the network output; -1 for a bad handle.
int64_t koshi_supervision_num_pdfs(const koshi_supervision *supervision);

// 1 if each sequence has an FST of its own, with cycles, 0 if not; -1 for a bad handle.
int32_t koshi_supervision_is_end_to_end(const koshi_supervision *supervision);

// How much the batch counts; NaN for a bad handle.
float koshi_supervision_weight(const koshi_supervision *supervision);

// Counts `supervision` once more and returns it; NULL for a bad handle.
koshi_supervision *koshi_supervision_ref(const koshi_supervision *supervision);

// Takes back one count of `supervision`; the last one frees it. NULL is fine.
koshi_status koshi_supervision_free(koshi_supervision *supervision);

// Fills *config, of `size` bytes, with the defaults.
koshi_status koshi_chain_config_init(koshi_chain_config *config, size_t size, koshi_error **err);

// Reads a den.fst, an OpenFst acceptor of type vector or const over labels pdf + 1, into *graph, for network
// outputs of `num_pdfs` columns. `path` is a file, or what else Kaldi calls an rxfilename. KOSHI_E_SHAPE for
// a pdf that is not below `num_pdfs`; KOSHI_E_GRAPH for epsilons, negative labels, weights that are NaN or
// -inf, no start state, and a state whose outgoing probabilities do not sum to more than 0 and less than
// 100; KOSHI_E_IO, KOSHI_E_FORMAT, KOSHI_E_UNSUPPORTED, KOSHI_E_NO_MEMORY.
koshi_status koshi_den_graph_read(const char *path,
                                  size_t num_pdfs,
                                  koshi_den_graph **graph,
                                  koshi_error **err);

// As koshi_den_graph_read, from `size` bytes at `data`, which are not needed afterwards.
koshi_status koshi_den_graph_from_memory(const uint8_t *data,
                                         size_t size,
                                         size_t num_pdfs,
                                         koshi_den_graph **graph,
                                         koshi_error **err);

// Number of states; -1 for a bad handle.
int64_t koshi_den_graph_num_states(const koshi_den_graph *graph);

// Number of pdfs that it was read for; -1 for a bad handle.
int64_t koshi_den_graph_num_pdfs(const koshi_den_graph *graph);

// The initial probability of each state, and how many there are in *len. NULL and 0 for a bad handle.
const float *koshi_den_graph_initial_probs(const koshi_den_graph *graph, size_t *len);

// Counts `graph` once more and returns it; NULL for a bad handle.
koshi_den_graph *koshi_den_graph_ref(const koshi_den_graph *graph);

// Takes back one count of `graph`; the last one frees it. NULL is fine.
koshi_status koshi_den_graph_free(koshi_den_graph *graph);

// The chain objective (LF-MMI) of a batch and its derivatives, as Kaldi's ComputeChainObjfAndDeriv.
//
// `output` is the network output: `rows` rows of `cols` numbers that begin `stride` apart, row
// frame * num_sequences + sequence, a column for each pdf. `config` may be NULL for the defaults.
//
// *objf is the numerator's log-probability less the denominator's, times the supervision's weight; *l2_term
// is not in it; *weight is the supervision's weight times all frames: objf / weight is the value a frame.
// Each may be NULL. `deriv` and `xent_deriv` may be NULL; what they held does not matter. `deriv` gets the
// derivative of objf, l2 term and out-of-range penalty by `output`, `xent_deriv` the weighted likelihood of
// each pdf given what was said (not times xent_regularize). Matrices may not overlap. All three are where
// config->memory says: in the memory of the host or of the GPU.
//
// KOSHI_OK_PARTIAL where no objective can be had (NaN or +inf where something was said, nothing that was
// said is possible, numbers out of range, or forward and backward pass disagree: sums over the batch that
// should equal the number of sequences are more than 2 off): *objf is then -10 * weight, `xent_deriv` 0
// and `deriv` 0 but for the l2 term. All that is written is finite; elements of `output` that are not add
// nothing to the l2 term. NaN where nothing was said counts as -30, and the call is KOSHI_OK.
//
// KOSHI_E_SHAPE where output, graph, supervision and deriv_weights do not fit together; KOSHI_E_CONFIG;
// KOSHI_E_UNSUPPORTED for device memory without the GPU; KOSHI_E_ARGUMENT; KOSHI_E_NO_MEMORY; and, on a GPU,
// KOSHI_E_NO_DEVICE, KOSHI_E_DEVICE. A GPU that fails may have written to `deriv` and `xent_deriv` before.
koshi_status koshi_chain_objf(const koshi_den_graph *graph,
                              const koshi_supervision *supervision,
                              const koshi_chain_config *config,
                              const float *output,
                              size_t rows,
                              size_t cols,
                              size_t stride,
                              double *objf,
                              double *l2_term,
                              double *weight,
                              float *deriv,
                              size_t deriv_stride,
                              float *xent_deriv,
                              size_t xent_deriv_stride,
                              koshi_error **err);

// The log-probability of all that the graph holds, summed over `num_sequences` sequences, in *logprob, and
// `deriv_weight` (finite) times its derivative, added to `deriv` unless that is NULL. `output` and `config`
// are as for koshi_chain_objf; of the options, only backend, device, memory, stream, num_threads,
// leaky_hmm_coefficient, randomised_thresholds and seed matter.
// Scores are clamped to -30 and 30, NaN counts as -30. `lengths` are the frames of each sequence, at most
// rows / num_sequences; NULL if all have that many. Rows of frames that a sequence has not are not read, and
// their rows in `deriv` left alone.
//
// KOSHI_OK_PARTIAL where the probability of a sequence cannot be held in 32 bits: it counts as -10 a frame,
// and adds nothing to `deriv`; or where the forward and backward pass disagree (see koshi_chain_objf).
koshi_status koshi_chain_denominator(const koshi_den_graph *graph,
                                     const koshi_chain_config *config,
                                     size_t num_sequences,
                                     const uint32_t *lengths,
                                     const float *output,
                                     size_t rows,
                                     size_t cols,
                                     size_t stride,
                                     double *logprob,
                                     float deriv_weight,
                                     float *deriv,
                                     size_t deriv_stride,
                                     koshi_error **err);

// The log-probability of what was said, times the supervision's weight (end-to-end without it, as in Kaldi),
// in *logprob, and weight times its derivative, added to `deriv` unless that is NULL. `output` is as for
// koshi_chain_objf, in the memory of the host; scores are not clamped. KOSHI_OK_PARTIAL where it is not
// finite: *logprob is then -10 a frame times the weight, and nothing is added.
koshi_status koshi_chain_numerator(const koshi_supervision *supervision,
                                   const float *output,
                                   size_t rows,
                                   size_t cols,
                                   size_t stride,
                                   double *logprob,
                                   float *deriv,
                                   size_t deriv_stride,
                                   koshi_error **err);

// Takes `scale` times what each element of `output` is beyond -limit or limit from the same element of
// `deriv`, both in the memory of the host. Elements that are not finite count as within. Limit and scale are
// 0 or more and finite.
koshi_status koshi_chain_penalize_out_of_range(float limit,
                                               float scale,
                                               const float *output,
                                               size_t rows,
                                               size_t cols,
                                               size_t stride,
                                               float *deriv,
                                               size_t deriv_stride,
                                               koshi_error **err);

#ifdef __cplusplus
}  // extern "C"
#endif  // __cplusplus

#endif  /* KOSHI_H */

//! Good arguments for every function of the C header, as text of a C program, and which of them may be left out: for
//! `tests/null_arguments.rs`, with the objects of `c-tests/misuse/fixtures.h`.

/// Pointers that may be NULL. What is named must stand beside "NULL" in the header; what is not must be refused.
/// Besides: `user_data` and `drop`, the handle of a free function, and where queries write lengths.
pub const OPTIONAL: &[(&str, &[&str])] = &[
    ("koshi_channel_advance", &["frames_decoded"]),
    ("koshi_channel_committed_lattice", &["first_frame"]),
    ("koshi_channel_compact_lattice", &["effective_beam"]),
    ("koshi_channel_partial", &["stable_words"]),
    ("koshi_channel_partial_words", &["stable_words"]),
    ("koshi_channel_push_device", &["stream"]),
    ("koshi_channel_segment", &["endpoint", "path", "lattice"]),
    ("koshi_channel_set_determinize", &["transitions", "config"]),
    ("koshi_channel_set_listener", &["listener"]),
    ("koshi_chain_denominator", &["config", "deriv", "lengths"]),
    ("koshi_chain_numerator", &["deriv"]),
    ("koshi_chain_objf", &["config", "objf", "l2_term", "weight", "deriv", "xent_deriv"]),
    ("koshi_decoder_new", &["config"]),
    ("koshi_decoder_set_endpoint_rules", &["config"]),
    ("koshi_example_label", &["weight"]),
    ("koshi_graph_from_memory", &["transitions"]),
    ("koshi_graph_read", &["transitions"]),
    ("koshi_language_model_from_memory", &["symbols"]),
    ("koshi_language_model_read", &["symbols"]),
    ("koshi_lattice_align_words", &["options", "alignment"]),
    ("koshi_lattice_align_words_lexicon", &["options", "alignment"]),
    ("koshi_lattice_determinize", &["transitions", "config", "effective_beam"]),
    ("koshi_lattice_oracle", &["path"]),
    ("koshi_lattice_rescore", &["old_model", "new_model"]),
    ("koshi_lattice_to_dot", &["symbols"]),
    ("koshi_lattice_to_json", &["symbols"]),
    ("koshi_lattice_words", &["config"]),
    ("koshi_lattice_words_of", &["config"]),
    ("koshi_log_set", &["function"]),
    ("koshi_path_text", &["symbols", "len"]),
    ("koshi_paths_to_json", &["symbols"]),
    ("koshi_transducer_search", &["config"]),
    ("koshi_transducer_stream_new", &["config"]),
    ("koshi_transducer_stream_partial", &["stable_labels"]),
    ("koshi_words_to_ctm", &["format", "symbols"]),
    ("koshi_words_to_json", &["key", "symbols"]),
];

/// Good calls that cannot succeed here, and what they answer.
pub const EXCEPTIONS: &[(&str, &str)] = &[
    // The decoder of the fixtures computes on the CPU.
    ("koshi_channel_push_device", "KOSHI_E_UNSUPPORTED"),
    // The program runs without a GPU.
    ("koshi_cuda_device_info", "KOSHI_E_NO_DEVICE"),
];

/// Structs that are passed as arrays, whose elements do not tell their size.
pub const ARRAYS: &[&str] =
    &["koshi_decoder_item", "koshi_phrase", "koshi_transducer_item", "koshi_transducer_utterance"];

/// Functions that take what is in an array: afterwards it is the caller's no more.
pub const TAKES: &[&str] = &["koshi_examples_repository_accept"];

/// Values of arguments, by function (`*` for all that are not named) and argument.
pub const VALUES: &[(&str, &str, &str)] = &[
    ("*", "size", "sizeof g{before}"),
    ("*", "item_size", "sizeof g1[0]"),
    ("*", "utterance_size", "sizeof g2[0]"),
    ("*", "num_items", "1"),
    ("*", "num_utterances", "1"),
    ("*", "num_phrases", "1"),
    ("*", "num_silence", "1"),
    ("*", "num_columns", "2"),
    ("*", "num_pdfs", "2"),
    ("*", "num_sequences", "2"),
    ("*", "acoustic", "1"),
    ("*", "acoustic_scale", "1"),
    ("*", "allow", "0"),
    ("*", "arc", "0"),
    ("*", "beam", "5"),
    ("*", "binary", "1"),
    ("*", "capacity", "8"),
    ("koshi_path_text", "capacity", "sizeof g2"),
    ("*", "commit_frames", "256"),
    ("*", "cols", "2"),
    ("*", "count", "1"),
    ("*", "delta", "0.001f"),
    ("*", "deriv_stride", "2"),
    ("*", "deriv_weight", "1"),
    ("*", "dim", "1"),
    ("koshi_transducer_stream_push", "dim", "2"),
    ("*", "format", "KOSHI_LATTICE_TEXT"),
    ("*", "frame", "0"),
    ("*", "frame_shift", "0.01f"),
    ("*", "frames", "2"),
    ("*", "from_word", "0"),
    ("*", "graph", "1"),
    ("*", "id", "1"),
    ("*", "index", "0"),
    ("*", "keep_silence", "1"),
    ("*", "kind", "KOSHI_EGS_NNET"),
    ("*", "lattice_frames", "0"),
    ("*", "left_context", "0"),
    ("*", "len", "2"),
    ("koshi_language_model_cost", "len", "1"),
    ("*", "limit", "30"),
    ("*", "max_frames", "-1"),
    ("*", "max_level", "KOSHI_LOG_ERROR"),
    ("*", "most", "1"),
    ("*", "n", "1"),
    ("*", "num_frames", "1"),
    ("*", "number", "0"),
    ("*", "pdf", "1"),
    ("*", "right_context", "0"),
    ("*", "rows", "4"),
    ("koshi_channel_push_device", "rows", "4096"),
    ("*", "scale", "1"),
    ("*", "start_frame", "0"),
    ("*", "state", "0"),
    ("*", "status", "0"),
    ("*", "stride", "2"),
    ("*", "timeout", "0"),
    ("*", "use_final", "0"),
    ("*", "weight", "1"),
    ("*", "xent_deriv_stride", "2"),
    // Texts.
    ("*", "key", "\"a\""),
    ("*", "text", "\"ten\""),
    ("koshi_transitions_read", "path", "\"model\""),
    ("koshi_symbols_read", "path", "\"symbols\""),
    ("koshi_graph_read", "path", "\"graph\""),
    ("koshi_graph_read_mapped", "path", "\"graph\""),
    ("koshi_graph_write_cache", "path", "\"cache\""),
    ("koshi_word_boundary_read", "path", "\"boundary\""),
    ("koshi_align_lexicon_read", "path", "\"lexicon\""),
    ("koshi_language_model_read", "path", "\"graph\""),
    ("koshi_supervision_read", "path", "\"supervision\""),
    ("koshi_den_graph_read", "path", "\"den\""),
    ("koshi_matrix_reader_open", "rspecifier", "\"ark:matrices\""),
    ("koshi_lattice_reader_open", "rspecifier", "\"ark:lattices\""),
    ("koshi_egs_reader_open", "rspecifier", "\"ark:examples\""),
    ("koshi_egs_table_open", "rspecifier", "\"ark:examples\""),
    ("*", "wspecifier", "\"ark:written\""),
    // Arrays.
    ("*", "output", "ZEROS"),
    ("koshi_decodable_from_matrix", "rows", "ZEROS"),
    ("koshi_channel_push", "rows", "ZEROS"),
    ("koshi_channel_submit", "rows", "ZEROS"),
    ("koshi_transducer_stream_push", "rows", "ZEROS"),
    ("*", "columns", "COLUMNS"),
    ("*", "hypothesis", "WORDS"),
    ("*", "silence", "SILENCE"),
    ("*", "values", "WORDS"),
    ("*", "words", "WORDS"),
    ("koshi_language_model_cost", "words", "SILENCE"),
    ("*", "lengths", "LENGTHS"),
    // Callbacks.
    ("*", "function", "drop_nothing"),
    ("*", "drop", "count_drop"),
    ("*", "user_data", "&drops"),
    ("*", "stream", "NULL"),
];

/// Arguments that are made: declarations, the argument, and what cleans up. `g1` is what belongs to argument 1.
pub const MADE: &[(&str, &str, [&str; 3])] = &[
    ("koshi_channel_segment", "channel", ["koshi_channel *g0 = segmented_channel();", "g0", "koshi_channel_free(g0)"]),
    (
        "koshi_channel_settle",
        "channel",
        ["koshi_channel *g0 = determinized_channel();", "g0", "koshi_channel_free(g0)"],
    ),
    (
        "koshi_channel_compact_lattice",
        "channel",
        ["koshi_channel *g0 = determinized_channel();", "g0", "koshi_channel_free(g0)"],
    ),
    (
        "koshi_egs_reader_next_degs",
        "reader",
        ["koshi_egs_reader *g0 = degs_reader();", "g0", "koshi_egs_reader_free(g0)"],
    ),
    ("koshi_egs_table_find_degs", "table", ["koshi_egs_table *g0 = degs_table();", "g0", "koshi_egs_table_free(g0)"]),
    (
        "koshi_egs_writer_write_degs",
        "writer",
        ["koshi_egs_writer *g0 = degs_writer();", "g0", "koshi_egs_writer_free(g0)"],
    ),
    (
        "koshi_decoder_advance",
        "items",
        [
            "koshi_decoder_item g1[1] = {{channel_of(g0), ZEROS, 1, 1, 1, 0, 0}};",
            "g1",
            "koshi_channel_free(g1[0].channel)",
        ],
    ),
    (
        "koshi_transducer_advance",
        "items",
        [
            "koshi_transducer_item g1[1] = {{stream_of(g0), ZEROS, 1, 2, 2, 0, 0}};",
            "g1",
            "koshi_transducer_stream_free(g1[0].stream)",
        ],
    ),
    ("*", "utterances", ["koshi_transducer_utterance g2[1] = {{ZEROS, 2, 2, 2, 0, 0, NULL}};", "g2", ""]),
    ("*", "phrases", ["koshi_phrase g1[1] = {{SILENCE, 1, 0.5f, 0}};", "g1", ""]),
    ("koshi_path_text", "buffer", ["char g2[64];", "g2", ""]),
    ("*", "deriv", ["float g{at}[8] = {0};", "g{at}", ""]),
    ("*", "xent_deriv", ["float g{at}[8] = {0};", "g{at}", ""]),
    (
        "*",
        "supervisions",
        [
            "koshi_supervision *h0 = make_supervision(); const koshi_supervision *g0[1] = {h0};",
            "(const koshi_supervision *const *)g0",
            "koshi_supervision_free(h0)",
        ],
    ),
    (
        "koshi_examples_repository_accept",
        "examples",
        ["koshi_example *g1[1] = {make_example()};", "(koshi_example *const *)g1", ""],
    ),
    // Bytes of files.
    ("koshi_transitions_from_memory", "data", ["", "(const uint8_t *)MODEL", ""]),
    ("koshi_symbols_from_memory", "data", ["", "(const uint8_t *)SYMBOLS", ""]),
    ("koshi_word_boundary_from_memory", "data", ["", "(const uint8_t *)BOUNDARY", ""]),
    ("koshi_align_lexicon_from_memory", "data", ["", "(const uint8_t *)LEXICON", ""]),
    ("koshi_lattice_from_memory", "data", ["", "(const uint8_t *)LATTICE", ""]),
    ("koshi_supervision_from_memory", "data", ["", "(const uint8_t *)SUPERVISION", ""]),
    ("koshi_graph_from_memory_mapped", "data", ["struct bytes g0 = loop_bytes(0);", "g0.data", "released(g0.data)"]),
    ("koshi_graph_from_memory", "data", ["struct bytes g0 = loop_bytes(0);", "g0.data", "released(g0.data)"]),
    ("koshi_language_model_from_memory", "data", ["struct bytes g0 = loop_bytes(0);", "g0.data", "released(g0.data)"]),
    ("koshi_den_graph_from_memory", "data", ["struct bytes g0 = den_bytes();", "g0.data", "released(g0.data)"]),
    (
        "koshi_example_from_memory",
        "data",
        ["koshi_buffer *g0 = example_bytes();", "koshi_buffer_data(g0)", "koshi_buffer_free(g0)"],
    ),
    (
        "koshi_degs_from_memory",
        "data",
        ["koshi_buffer *g0 = degs_bytes();", "koshi_buffer_data(g0)", "koshi_buffer_free(g0)"],
    ),
];

/// Sizes of the bytes above.
pub const SIZES: &[(&str, &str)] = &[
    ("koshi_transitions_from_memory", "strlen(MODEL)"),
    ("koshi_symbols_from_memory", "strlen(SYMBOLS)"),
    ("koshi_word_boundary_from_memory", "strlen(BOUNDARY)"),
    ("koshi_align_lexicon_from_memory", "strlen(LEXICON)"),
    ("koshi_lattice_from_memory", "strlen(LATTICE)"),
    ("koshi_supervision_from_memory", "strlen(SUPERVISION)"),
    ("koshi_graph_from_memory", "g0.size"),
    ("koshi_graph_from_memory_mapped", "g0.size"),
    ("koshi_language_model_from_memory", "g0.size"),
    ("koshi_den_graph_from_memory", "g0.size"),
    ("koshi_example_from_memory", "(size_t)koshi_buffer_size(g0)"),
    ("koshi_degs_from_memory", "(size_t)koshi_buffer_size(g0)"),
];

/// How structs that are passed in are filled, where not by their init function.
pub const FILLED: &[(&str, &str)] = &[
    ("koshi_decodable_ops", "fill_decodable_ops(&{s})"),
    ("koshi_transducer_ops", "fill_transducer_ops(&{s})"),
    ("koshi_example_parts", "fill_example_parts(&{s})"),
    ("koshi_degs_parts", "fill_degs_parts(&{s}, NULL)"),
    ("koshi_channel_listener", "{s}.struct_size = sizeof {s}"),
    // The graph of the fixtures was read without a transition model.
    (
        "koshi_endpoint_config",
        "MADE(koshi_endpoint_config_init(&{s}, sizeof {s}, NULL)); {s}.silence = KOSHI_SILENCE_ILABELS",
    ),
];

/// Pointers in structs that are passed in: what a call answers that finds NULL there where all else is good.
/// `KOSHI_OK`: it may be missing.
pub const FIELDS: &[(&str, &[(&str, &str)])] = &[
    ("koshi_chain_config", &[("deriv_weights", "KOSHI_OK"), ("stream", "KOSHI_OK")]),
    (
        "koshi_channel_listener",
        &[("partial", "KOSHI_OK"), ("endpoint", "KOSHI_OK"), ("finished", "KOSHI_OK"), ("failed", "KOSHI_OK")],
    ),
    (
        "koshi_decodable_ops",
        &[
            ("log_likelihood", "KOSHI_OK"),
            ("frame_log_likelihoods", "KOSHI_OK"),
            ("num_frames_ready", "KOSHI_E_ARGUMENT"),
            ("is_last_frame", "KOSHI_E_ARGUMENT"),
            ("num_indices", "KOSHI_E_ARGUMENT"),
        ],
    ),
    // One item cannot fail the call: its own status tells.
    ("koshi_decoder_item", &[("channel", "KOSHI_OK_PARTIAL"), ("rows", "KOSHI_OK_PARTIAL")]),
    (
        "koshi_degs_parts",
        &[
            ("alignment", "KOSHI_E_ARGUMENT"),
            ("lattice", "KOSHI_OK"),
            ("rows", "KOSHI_E_ARGUMENT"),
            ("speaker", "KOSHI_E_ARGUMENT"),
        ],
    ),
    (
        "koshi_example_parts",
        &[
            ("labels", "KOSHI_E_ARGUMENT"),
            ("label_counts", "KOSHI_OK"),
            ("rows", "KOSHI_E_ARGUMENT"),
            ("speaker", "KOSHI_E_ARGUMENT"),
        ],
    ),
    ("koshi_phrase", &[("labels", "KOSHI_E_ARGUMENT")]),
    ("koshi_transducer_item", &[("stream", "KOSHI_OK_PARTIAL"), ("rows", "KOSHI_OK_PARTIAL")]),
    (
        "koshi_transducer_ops",
        &[
            ("predict", "KOSHI_E_ARGUMENT"),
            ("join", "KOSHI_E_ARGUMENT"),
            ("release_state", "KOSHI_OK"),
            ("lm_predict", "KOSHI_OK"),
        ],
    ),
    // `error` is a result.
    ("koshi_transducer_utterance", &[("rows", "KOSHI_OK_PARTIAL"), ("error", "KOSHI_OK")]),
];

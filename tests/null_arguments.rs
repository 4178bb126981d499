//! Every function of the C header with every pointer wrong, one at a time: NULL, misaligned, of a struct that lies about
//! its size; handles that were never given out, were freed, or are of another kind.
//!
//! A C program is made from the header, with objects of `c-tests/misuse/fixtures.h`. For each function it makes good
//! arguments, spoils one after another, and holds the answers to the header: the status, an error object exactly
//! where a call fails, results untouched, `drop` once a call. The same arguments must then do: a call that was
//! refused has changed nothing. A function, type or field that the tables of `support/good_arguments.rs` do not know
//! is a failure.

#[allow(dead_code)] // others lay structs out too
#[path = "support/c_header.rs"]
mod c_header;
mod common;
#[path = "support/good_arguments.rs"]
mod good_arguments;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;

use c_header::{Declared, Function, Kind};
use common::c::{Language, Program, text};
use good_arguments::{ARRAYS, EXCEPTIONS, FIELDS, FILLED, MADE, OPTIONAL, SIZES, TAKES, VALUES};

/// Numbers of calls without a field, above those of calls without an argument.
const FIELD: i32 = 100;

/// The rest of the program.
const BEGIN: &str = r#"
static inline koshi_buffer *example_bytes(void)
{
    koshi_example *example = make_example();
    koshi_buffer *buffer = NULL;
    MADE(koshi_example_to_memory(example, 1, &buffer, NULL));
    MADE(koshi_example_free(example));
    return buffer;
}

static inline koshi_buffer *degs_bytes(void)
{
    koshi_degs *degs = make_degs();
    koshi_buffer *buffer = NULL;
    MADE(koshi_degs_to_memory(degs, 1, &buffer, NULL));
    MADE(koshi_degs_free(degs));
    return buffer;
}

static inline koshi_status released(void *memory)
{
    free(memory);
    return KOSHI_OK;
}

static int failures, calls;

/* What is wrong; all of it is told before the program ends. */
static void wrong(const char *function, const char *argument, size_t at, const char *what)
{
    fprintf(stderr, "%s, %s, wrong value %lu: %s\n", function, argument, (unsigned long)at, what);
    ++failures;
}

static int err_mark;
#define ERR_MARK ((koshi_error *)(void *)&err_mark)

/* A call that must be answered with `wanted`. */
static void answered(koshi_status found, koshi_status wanted, int quiet, koshi_error *err, const char *function,
                     const char *argument, size_t at)
{
    char text[400];
    ++calls;
    if (found != wanted) {
        const char *said = !quiet && found < 0 && err != ERR_MARK ? koshi_error_message(err) : "";
        snprintf(text, sizeof text, "%s where %s is right: %s", koshi_status_name(found), koshi_status_name(wanted),
                 said == NULL ? "(no message)" : said);
        wrong(function, argument, at, text);
    }
    if (quiet || found >= 0) {
        if (err != ERR_MARK)
            wrong(function, argument, at, "*err was written");
        return;
    }
    if (err == ERR_MARK || err == NULL) {
        wrong(function, argument, at, "no error object");
        return;
    }
    if (koshi_error_status(err) != found || koshi_error_message(err) == NULL || koshi_error_message(err)[0] == '\0')
        wrong(function, argument, at, "the error object does not tell");
    if (koshi_error_free(err) != KOSHI_OK)
        wrong(function, argument, at, "the error object is not one");
}

static const size_t SIZES_THAT_LIE[] = {0, 1, 3, 8, 1u << 17};
static const uint32_t STRUCT_SIZES_THAT_LIE[] = {0, 1, 8, 0xfffffff0u};
"#;

struct Header {
    functions: Vec<Function>,
    /// Fields of structs.
    structs: BTreeMap<String, Vec<c_header::Field>>,
    /// Names of opaque types, without `koshi_`.
    handles: Vec<String>,
    /// What stands above each function.
    docs: BTreeMap<String, String>,
}

fn header() -> Header {
    let text = fs::read_to_string(common::root().join("include/koshi.h")).unwrap();
    let (mut functions, mut structs) = (Vec::new(), BTreeMap::new());
    for declared in c_header::read(&text) {
        match declared {
            Declared::Function(function) => functions.push(function),
            Declared::Struct(made) => drop(structs.insert(made.name, made.fields)),
            _ => {}
        }
    }
    let opaque = |line: &str| {
        let (name, again) = line.strip_prefix("typedef struct koshi_")?.strip_suffix(';')?.split_once(' ')?;
        (again.strip_prefix("koshi_") == Some(name)).then(|| name.to_string())
    };
    let (mut docs, mut above) = (BTreeMap::new(), String::new());
    for line in text.lines() {
        match line.strip_prefix("//") {
            Some(words) => above += words,
            None => {
                let above = std::mem::take(&mut above);
                if let Some(function) = functions.iter().find(|function| line.contains(&format!("{}(", function.name)))
                {
                    docs.insert(function.name.clone(), above);
                }
            }
        }
    }
    Header { functions, structs, handles: text.lines().filter_map(opaque).collect(), docs }
}

impl Header {
    /// What the header says of a function, with that of those it refers to ("otherwise as ...").
    fn doc(&self, function: &str) -> String {
        let (mut open, mut seen, mut all) = (vec![function.to_string()], BTreeSet::new(), String::new());
        while let Some(name) = open.pop() {
            if !seen.insert(name.clone()) {
                continue;
            }
            let Some(doc) = self.docs.get(&name) else { continue };
            all += doc;
            let refers = ["As koshi_", "as koshi_", "as for koshi_"];
            for rest in refers.iter().flat_map(|words| doc.split(words).skip(1)) {
                let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
                open.push(format!("koshi_{}", &rest[..end]));
            }
        }
        all
    }

    /// The kind of handle that `kind`, a type without const, points to.
    fn handle(&self, kind: &str) -> Option<&str> {
        let name = kind.strip_suffix(" *")?.strip_prefix("koshi_")?;
        self.handles.iter().find(|handle| *handle == name).map(String::as_str)
    }
}

fn optional(function: &Function, at: usize) -> bool {
    let (kind, name) = (&*function.parameters[at], &*function.names[at]);
    let listed = OPTIONAL.iter().any(|(of, names)| *of == function.name && names.contains(&name));
    let freed = function.name.ends_with("_free") && at == 0;
    listed || freed || kind == "koshi_drop_fn" || kind == "void *" || (is_query(function) && kind == "size_t *")
}

/// A function that answers with a value and has no error.
fn is_query(function: &Function) -> bool {
    function.result != "koshi_status"
}

/// Whether a failing call has an object to tell why.
fn has_error(function: &Function) -> bool {
    function.parameters.last().is_some_and(|kind| kind == "koshi_error **")
}

/// What a parameter is given: declarations, the argument itself, and what cleans up.
struct Given {
    setup: String,
    value: String,
    teardown: String,
    /// A result, to be held to its mark.
    result: bool,
    /// The handle, if it is one, and the struct that is passed in with its size, if it is one.
    handle: Option<String>,
    sized: Option<String>,
    /// Elements are handles.
    handles: bool,
    /// An array of handles, or of structs without a size of their own.
    array: bool,
}

/// What function and argument have in a table, else what the argument has.
fn find<T: Copy>(
    rows: impl Iterator<Item = (&'static str, &'static str, T)> + Clone,
    function: &str,
    name: &str,
) -> Option<T> {
    let named = |wanted: &str| rows.clone().find(|row| row.0 == wanted && row.1 == name).map(|row| row.2);
    named(function).or_else(|| named("*"))
}

fn given(header: &Header, function: &Function, at: usize) -> Given {
    let (kind, name) = (&*function.parameters[at], &*function.names[at]);
    let plain = kind.strip_prefix("const ").unwrap_or(kind);
    let mut given = Given {
        setup: String::new(),
        value: String::new(),
        teardown: String::new(),
        result: false,
        handle: header.handle(plain).map(String::from),
        sized: None,
        handles: kind.ends_with("*const *"),
        array: kind.ends_with("*const *") || ARRAYS.contains(&plain.strip_suffix(" *").unwrap_or_default()),
    };
    let pointed = plain.strip_suffix(" *").unwrap_or(plain);
    let is_struct = header.structs.contains_key(pointed);
    given.sized = (is_struct && kind.starts_with("const ") && !given.array).then(|| pointed.to_string());
    let place = |text: &str| text.replace("{at}", &at.to_string());
    let made = find(MADE.iter().copied(), &function.name, name);
    let value = find(VALUES.iter().copied(), &function.name, name);
    if let Some([setup, value, teardown]) = made {
        (given.setup, given.value, given.teardown) = (place(setup), place(value), place(teardown));
        given.result = !kind.starts_with("const ") && !given.handles && given.handle.is_none() && !is_struct;
    } else if let Some(handle) = &given.handle {
        given.setup = format!("koshi_{handle} *g{at} = make_{handle}();");
        given.value = format!("g{at}");
        given.teardown = format!("koshi_{handle}_free(g{at})");
    } else if given.sized.is_some() {
        given.setup = format!("struct {{ {pointed} s; char tail[64]; }} g{at};");
        given.value = format!("&g{at}.s");
    } else if name == "size" && function.name.contains("_from_memory") {
        let sizes = SIZES.iter().find(|row| row.0 == function.name);
        given.value = sizes.unwrap_or_else(|| panic!("no bytes for {}", function.name)).1.into();
    } else if kind.ends_with('*') && !kind.starts_with("const ") && kind != "void *" || kind == "const char **" {
        // A result: one of what the pointer is of.
        let of = kind.strip_suffix('*').unwrap().trim();
        given.setup = format!("{of}{}g{at};", if of.ends_with('*') { "" } else { " " });
        given.value = format!("&g{at}");
        given.result = true;
        if let Some(handle) = header.handle(of) {
            given.teardown = format!("koshi_{handle}_free(g{at})");
        }
    } else {
        let value = value.unwrap_or_else(|| panic!("{}: no value for {kind} {name}", function.name));
        given.value = value.replace("{before}", &at.wrapping_sub(1).to_string());
    }
    given
}

/// C that fills argument `at`, a struct that is passed in.
fn fill(at: usize, name: &str) -> String {
    let place = format!("g{at}.s");
    let filled = FILLED.iter().find(|row| row.0 == name).map(|row| row.1.replace("{s}", &place));
    let filled = filled.unwrap_or_else(|| format!("MADE({name}_init(&{place}, sizeof {place}, NULL))"));
    format!("memset(&g{at}, 0, sizeof g{at}); {filled};")
}

/// Wrong values of an argument: C that is given the number of one in `at`, how many there are, and the status.
struct Wrong {
    argument: usize,
    count: String,
    spoil: String,
}

fn wrongs(header: &Header, function: &Function, all: &[Given]) -> Vec<Wrong> {
    let mut found = Vec::new();
    for (number, given) in all.iter().enumerate() {
        let (kind, name) = (&*function.parameters[number], &*function.names[number]);
        let optional = usize::from(optional(function, number));
        let mut add = |count: String, spoil: String| found.push(Wrong { argument: number, count, spoil });
        if let Some(handle) = &given.handle {
            add(
                format!("BAD_HANDLES - {optional}"),
                format!(
                    "p{number} = (koshi_{handle} *)bad_handle(KIND_{handle}, at + {optional}); wanted = KOSHI_E_HANDLE;"
                ),
            );
            continue;
        }
        if name == "size" && !function.name.contains("_from_memory") || name == "item_size" || name == "utterance_size"
        {
            add("5".into(), format!("p{number} = SIZES_THAT_LIE[at]; wanted = KOSHI_E_ARGUMENT;"));
            // An array of structs has no greatest size.
            if name != "size" {
                found.last_mut().unwrap().count = "4".into();
            }
            continue;
        }
        if !kind.ends_with('*') || kind == "koshi_error **" || kind == "void *" {
            continue;
        }
        if optional == 0 {
            add("1".into(), format!("p{number} = NULL; wanted = KOSHI_E_ARGUMENT;"));
        }
        let bytes = ["const char *", "char *", "const uint8_t *"].contains(&kind);
        // Queries write no length where they cannot, and answer all the same.
        if !bytes && !is_query(function) {
            add(
                "1".into(),
                format!("p{number} = ({kind})(uintptr_t)((uintptr_t)g_{number} + 1); wanted = KOSHI_E_ARGUMENT;"),
            );
        }
        if given.handles {
            let handle = kind.trim_start_matches("const ").strip_prefix("koshi_").unwrap();
            let handle = handle.split(' ').next().unwrap();
            add(
                "BAD_HANDLES".into(),
                format!("g{number}[0] = (koshi_{handle} *)bad_handle(KIND_{handle}, at); wanted = KOSHI_E_HANDLE;"),
            );
        }
        let Some(sized) =
            kind.trim_start_matches("const ").strip_suffix(" *").filter(|of| header.structs.contains_key(*of))
        else {
            continue;
        };
        if given.sized.is_some() {
            add("4".into(), format!("g{number}.s.struct_size = STRUCT_SIZES_THAT_LIE[at]; wanted = KOSHI_E_ARGUMENT;"));
            let tail =
                format!("g{number}.s.struct_size = (uint32_t)(sizeof g{number}.s + 64); g{number}.tail[63] = 1;");
            add("1".into(), format!("{tail} wanted = KOSHI_E_UNSUPPORTED;"));
        }
        let fields = FIELDS.iter().find(|row| row.0 == sized && !given.result).map_or(&[][..], |row| row.1);
        for (field, status) in fields.iter().filter(|field| !field.1.starts_with("KOSHI_OK")) {
            let place = if given.sized.is_some() { format!("g{number}.s") } else { format!("g{number}[0]") };
            add("1".into(), format!("{place}.{field} = NULL; wanted = {status};"));
        }
    }
    found
}

/// Whether a query's answer says that nothing is there.
fn refusal(result: &str) -> &'static str {
    match result {
        "int32_t" | "int64_t" => "found == -1",
        "float" | "double" => "isnan(found)",
        result if result.ends_with('*') => "found == NULL",
        result => panic!("what does a query of {result} answer to a bad argument?"),
    }
}

/// The C function that calls `function` in all ways, and how often it is to be called: for each optional argument
/// that is left out, and with all of them.
fn caller(header: &Header, function: &Function) -> (String, Vec<i32>) {
    let name = &function.name;
    let count = function.parameters.len() - usize::from(has_error(function));
    let all: Vec<Given> = (0..count).map(|at| given(header, function, at)).collect();
    let mut body = String::new();
    let out = &mut body;
    writeln!(
        out,
        "static void call_{name}(int without)\n{{\n    int quiet;\n    size_t at;\n    koshi_error *err = ERR_MARK;"
    )
    .unwrap();
    for (at, given) in all.iter().enumerate() {
        if !given.setup.is_empty() {
            writeln!(out, "    {}", given.setup).unwrap();
        }
        let kind = &function.parameters[at];
        writeln!(out, "    {kind}{}g_{at} = {};", if kind.ends_with('*') { "" } else { " " }, given.value).unwrap();
    }
    // Before each call results are marked and structs filled; wrong values are put in afterwards.
    let mut begin = String::new();
    for (at, kind) in function.parameters.iter().enumerate().take(count) {
        writeln!(begin, "            {kind}{}p{at} = g_{at};", if kind.ends_with('*') { "" } else { " " }).unwrap();
    }
    for (at, given) in all.iter().enumerate() {
        if given.result {
            writeln!(begin, "            memset(g_{at}, MARK, sizeof g{at});").unwrap();
        } else if let Some(sized) = &given.sized {
            writeln!(begin, "            {}", fill(at, sized)).unwrap();
        }
    }
    let passed = |error: &str| {
        let mut list: Vec<String> = (0..count).map(|at| format!("p{at}")).collect();
        if has_error(function) {
            list.push(error.into());
        }
        list.join(", ")
    };
    let has_drop = function.names.iter().any(|name| name == "drop");
    let result = &function.result;
    let space = if result.ends_with('*') { "" } else { " " };
    writeln!(out, "    (void)without, (void)at, (void)err, (void)quiet;").unwrap();
    for wrong in wrongs(header, function, &all) {
        let argument = &function.names[wrong.argument];
        let told = format!("\"{name}\", \"{argument}\", at");
        writeln!(
            out,
            "    for (at = 0; without < 0 && at < {}; ++at)\n        for (quiet = 0; quiet < {}; ++quiet) {{",
            wrong.count,
            if has_error(function) { 2 } else { 1 }
        )
        .unwrap();
        writeln!(out, "            koshi_status wanted = KOSHI_E_ARGUMENT;\n            {result}{space}found;")
            .unwrap();
        let arrays: Vec<usize> = (0..count).filter(|&at| all[at].array).collect();
        for at in &arrays {
            writeln!(out, "            unsigned char kept{at}[sizeof g{at}];").unwrap();
        }
        out.push_str(&begin);
        if has_drop {
            writeln!(out, "            drops = 0;").unwrap();
        }
        for at in &arrays {
            writeln!(out, "            memcpy(kept{at}, g{at}, sizeof g{at});").unwrap();
        }
        writeln!(out, "            {}\n            (void)wanted;", wrong.spoil).unwrap();
        writeln!(out, "            found = {name}({});", passed("quiet ? NULL : &err")).unwrap();
        for at in &arrays {
            writeln!(out, "            memcpy(g{at}, kept{at}, sizeof g{at});").unwrap();
        }
        if is_query(function) {
            writeln!(
                out,
                "            ++calls;\n            if (!({})) wrong({told}, \"an answer to a bad argument\");",
                refusal(result)
            )
            .unwrap();
        } else if has_error(function) {
            writeln!(out, "            answered(found, wanted, quiet, err, {told});\n            err = ERR_MARK;")
                .unwrap();
        } else {
            writeln!(out, "            answered(found, wanted, 1, ERR_MARK, {told});").unwrap();
        }
        for number in (0..count).filter(|&number| all[number].result) {
            let (mark, said) = match is_query(function) {
                true => ("0", "a length is not 0"),
                false => ("MARK", "a result was written"),
            };
            writeln!(
                out,
                "            if (!all_bytes(&g{number}, sizeof g{number}, {mark})) wrong({told}, \"{said}\");"
            )
            .unwrap();
        }
        if has_drop {
            writeln!(out, "            if (drops != 1) wrong({told}, \"drop did not run once\");").unwrap();
        }
        writeln!(out, "        }}").unwrap();
    }
    // The good call, with one optional argument left out.
    writeln!(out, "    {{\n            {result}{space}found;").unwrap();
    out.push_str(&begin);
    let mut turns = vec![-1];
    let mut wanted =
        EXCEPTIONS.iter().find(|row| row.0 == *name).map_or("found > 0 ? found : KOSHI_OK", |row| row.1).to_string();
    let mut restore = String::new();
    for (at, given) in all.iter().enumerate() {
        let Some(of) = function.parameters[at].trim_start_matches("const ").strip_suffix(" *") else { continue };
        let fields =
            FIELDS.iter().find(|row| row.0 == of && header.structs.contains_key(of)).map_or(&[][..], |row| row.1);
        let place = if given.sized.is_some() { format!("g{at}.s") } else { format!("g{at}[0]") };
        // An init function makes the struct, and takes none.
        if fields.is_empty() || (given.sized.is_none() && given.result) {
            continue;
        }
        writeln!(out, "            {of} kept{at} = {place};").unwrap();
        writeln!(restore, "            {place} = kept{at};").unwrap();
        for (field, status) in fields.iter().filter(|field| field.1.starts_with("KOSHI_OK")) {
            let turn = FIELD + turns.len() as i32;
            writeln!(out, "            if (without == {turn}) {place}.{field} = NULL;").unwrap();
            if *status != "KOSHI_OK" {
                wanted = format!("without == {turn} ? {status} : {wanted}");
            }
            turns.push(turn);
        }
    }
    for at in 0..count {
        let kind = &*function.parameters[at];
        if optional(function, at) && (kind.ends_with('*') || kind.ends_with("_fn")) {
            writeln!(out, "            if (without == {at}) p{at} = NULL;").unwrap();
            turns.push(at as i32);
        }
    }
    if has_drop {
        writeln!(out, "            drops = 0;").unwrap();
    }
    writeln!(out, "            found = {name}({});\n            (void)found;\n{restore}", passed("&err")).unwrap();
    let told = format!("\"{name}\", \"(good)\", (size_t)without");
    if is_query(function) {
        writeln!(out, "            ++calls;").unwrap();
        // NULL may be an answer where there is nothing: the cause of an error without one.
        let good = if name == "koshi_error_cause" { "1" } else { refusal_of_good(result) };
        writeln!(out, "            if (!({good})) wrong({told}, \"no answer\");").unwrap();
    } else if name == "koshi_error_status" {
        writeln!(out, "            answered(found, KOSHI_E_ARGUMENT, 1, ERR_MARK, {told});").unwrap();
    } else {
        let (quiet, err) = if has_error(function) { ("0", "err") } else { ("1", "ERR_MARK") };
        writeln!(out, "            answered(found, {wanted}, {quiet}, {err}, {told});").unwrap();
    }
    if name.ends_with("_free") {
        writeln!(out, "            if (without < 0) answered({name}(g0), KOSHI_E_HANDLE, 1, ERR_MARK, {told});")
            .unwrap();
    }
    // A query that hands out an object of the caller's.
    if let Some(handle) = header.handle(result) {
        writeln!(out, "            CHECK(koshi_{handle}_free(found) == KOSHI_OK);").unwrap();
    }
    for (at, given) in all.iter().enumerate() {
        let freed = name.ends_with("_free") && at == 0;
        let given_up = TAKES.contains(&&**name) && given.handles;
        if given.teardown.is_empty() || given_up {
            continue;
        }
        let condition = match (freed, given.result) {
            (true, _) => "without == 0".to_string(),
            (_, true) => format!("found >= 0 && without != {at}"),
            _ => "1".to_string(),
        };
        writeln!(out, "            if ({condition}) CHECK({} == KOSHI_OK);", given.teardown).unwrap();
    }
    if has_drop {
        if name == "koshi_log_set" {
            writeln!(out, "            CHECK(koshi_log_set(NULL, NULL, NULL, 0, NULL) == KOSHI_OK);").unwrap();
        }
        let drop = function.names.iter().position(|name| name == "drop").unwrap();
        // What was left out does not run; without data there is nothing that the callback could check.
        writeln!(out, "            if (drops != (without == {drop} || without == {drop} - 1 ? 0 : 1)) wrong({told}, \"drop did not run once\");").unwrap();
    }
    writeln!(out, "    }}\n}}\n").unwrap();
    // `count_drop` looks at its data.
    if has_drop {
        let data = function.names.iter().position(|name| name == "user_data").unwrap() as i32;
        turns.retain(|&turn| turn != data);
    }
    (body, turns)
}

fn refusal_of_good(result: &str) -> &'static str {
    match result {
        "int32_t" | "int64_t" => "found >= 0",
        "uint32_t" => "1",
        "float" | "double" => "!isnan(found)",
        _ => "found != NULL",
    }
}

fn program(header: &Header) -> String {
    let fixtures = common::root().join("c-tests/misuse/fixtures.h");
    let mut out = format!("#include \"{}\"\n{BEGIN}\n", fixtures.display());
    let kinds: String = header.handles.iter().map(|handle| format!("KIND_{handle}, ")).collect();
    writeln!(out, "enum {{ {kinds}KINDS }};\nstatic void *live[KINDS], *freed[KINDS];\n").unwrap();
    out.push_str("static void make_all(void)\n{\n");
    for handle in &header.handles {
        writeln!(out, "    live[KIND_{handle}] = make_{handle}();\n    freed[KIND_{handle}] = make_{handle}();")
            .unwrap();
        writeln!(out, "    MADE(koshi_{handle}_free((koshi_{handle} *)freed[KIND_{handle}]));").unwrap();
    }
    out.push_str("}\n\nstatic void free_all(void)\n{\n");
    for handle in &header.handles {
        writeln!(out, "    MADE(koshi_{handle}_free((koshi_{handle} *)live[KIND_{handle}]));").unwrap();
    }
    out.push_str(
        "}\n
/* What is no handle of a kind; the first is NULL. */
enum { BAD_HANDLES = 9 + KINDS - 1 };
static void *on_the_stack;
static void *bad_handle(int kind, size_t at)
{
    uintptr_t good = (uintptr_t)live[kind];
    size_t other;
    switch (at) {
    case 0: return NULL;
    case 1: return garbage(1);
    case 2: return garbage(~(uintptr_t)0);
    case 3: return on_the_stack;
    case 4: return live;
    case 5: return freed[kind];
    case 6: return garbage(good + 1000);                 /* a generation that has not been */
    case 7: return garbage(good ^ ((uintptr_t)1 << 50)); /* a slot that does not exist */
    case 8: return garbage(good ^ ((uintptr_t)96 << 56)); /* a kind that does not exist */
    }
    other = at - 9;
    return live[other < (size_t)kind ? other : other + 1];
}

",
    );
    let mut main = String::from(
        "int main(int count, char **words)\n{\n    on_the_stack = &count;\n    CHECK(count == 2 && chdir(words[1]) == 0);\n    write_files();\n    make_all();\n",
    );
    for function in &header.functions {
        let (body, turns) = caller(header, function);
        out.push_str(&body);
        for turn in turns {
            writeln!(main, "    call_{}({turn});", function.name).unwrap();
        }
    }
    main.push_str("    free_all();\n    printf(\"%d\\n\", calls);\n    return failures > 0;\n}\n");
    out + &main
}

#[test]
fn every_pointer_of_every_function() {
    let header = header();
    let folder = tempfile::tempdir().unwrap();
    let source = folder.path().join("misuse.c");
    fs::write(&source, program(&header)).unwrap();
    if let Some(copy) = std::env::var_os("KOSHI_KEEP_MISUSE") {
        fs::copy(&source, copy).unwrap();
    }
    let program = Program::compile(&source, Language::C99);
    let output = program.run(&[folder.path().to_str().unwrap()]);
    assert!(output.status.success() && output.stderr.is_empty(), "{}", text(&output));
    let calls: usize = String::from_utf8(output.stdout).unwrap().trim().parse().unwrap();
    assert!(header.functions.len() > 260 && calls > 10_000, "{calls} calls of {}", header.functions.len());
}

/// The tables name what is there, and what the header says may be NULL.
#[test]
fn the_tables_keep_to_the_header() {
    let header = header();
    let function = |name: &str| header.functions.iter().find(|function| function.name == name);
    let words = |doc: &str| -> BTreeSet<String> {
        doc.split(|c: char| !c.is_alphanumeric() && c != '_').map(String::from).collect()
    };
    for (name, arguments) in OPTIONAL {
        let found = function(name).unwrap_or_else(|| panic!("there is no {name}"));
        let words = words(&header.doc(name));
        for argument in *arguments {
            assert!(found.names.iter().any(|name| name == argument), "{name} has no {argument}");
            assert!(
                words.contains("NULL") && words.contains(*argument),
                "the header does not say that {argument} of {name} may be NULL"
            );
        }
    }
    for (name, argument) in VALUES.iter().map(|row| (row.0, row.1)).chain(MADE.iter().map(|row| (row.0, row.1))) {
        let there = |function: &Function| {
            (name == "*" || function.name == name) && function.names.iter().any(|n| n == argument)
        };
        assert!(header.functions.iter().any(there), "{name} has no {argument}");
    }
    for name in EXCEPTIONS.iter().map(|row| row.0).chain(SIZES.iter().map(|row| row.0)).chain(TAKES.iter().copied()) {
        assert!(function(name).is_some(), "there is no {name}");
    }
    // Each pointer in a struct that is passed in, and nothing else.
    let passed_in = |name: &str| {
        let (constant, array) = (format!("const {name} *"), format!("{name} *"));
        header.functions.iter().any(|function| {
            function.parameters.iter().zip(&function.names).any(|(kind, argument)| {
                *kind == constant || *kind == array && (argument == "items" || argument == "utterances")
            })
        })
    };
    for (name, fields) in header.structs.iter().filter(|(name, _)| passed_in(name)) {
        let is_pointer = |kind: &Kind| match kind {
            Kind::Plain(of) => of.ends_with('*'),
            Kind::Array(..) => false,
            Kind::Callback { .. } => true,
        };
        let found: Vec<&str> =
            fields.iter().filter(|field| is_pointer(&field.kind)).map(|field| &*field.name).collect();
        let listed = FIELDS.iter().find(|row| row.0 == name).map_or(&[][..], |row| row.1);
        let listed: Vec<&str> = listed.iter().map(|field| field.0).collect();
        assert_eq!(found, listed, "pointers of {name}, which is passed in");
    }
}

/// Each kind of handle that some call needs for itself is one that `c-tests/busy.c` lets threads want at once.
#[test]
fn each_exclusive_handle_is_fought_for() {
    let header = header();
    let program = fs::read_to_string(common::root().join("c-tests/busy.c")).unwrap();
    let exclusive = |function: &&Function| !function.name.ends_with("_free") && !function.parameters.is_empty();
    let kinds: BTreeSet<&str> = header
        .functions
        .iter()
        .filter(exclusive)
        .filter_map(|function| header.handle(&function.parameters[0]))
        .collect();
    assert!(kinds.len() > 8, "{kinds:?}");
    for kind in kinds {
        let made = program.contains(&format!("KIND({kind},"))
            || program.contains(&format!("static koshi_{kind} *{}", kind.rsplit('_').next().unwrap()));
        assert!(made, "no thread of c-tests/busy.c wants a koshi_{kind}");
    }
}

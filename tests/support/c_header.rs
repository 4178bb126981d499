//! What `include/koshi.h` declares, read from its text as cbindgen writes it.

use std::collections::BTreeMap;

/// A declared thing, in the order of the header.
#[derive(Debug)]
pub enum Declared {
    /// `#define NAME VALUE`, or a value of an enum.
    Constant {
        name: String,
        value: i64,
    },
    /// `enum NAME`, of 4 bytes.
    Enum {
        name: String,
    },
    /// `typedef TYPE NAME;`
    Alias {
        name: String,
        of: String,
    },
    /// `typedef RESULT (*NAME)(PARAMETERS);`
    Callback {
        name: String,
        result: String,
        parameters: Vec<String>,
    },
    Struct(Struct),
    Function(Function),
}

/// A struct whose fields the caller knows.
#[derive(Debug)]
pub struct Struct {
    pub name: String,
    pub fields: Vec<Field>,
}

/// A field.
#[derive(Debug)]
pub struct Field {
    pub name: String,
    pub kind: Kind,
}

/// What a field is of.
#[derive(Debug)]
pub enum Kind {
    Plain(String),
    Array(String, usize),
    Callback { result: String, parameters: Vec<String> },
}

/// A function: types of its result and its parameters, and their names.
#[derive(Debug)]
pub struct Function {
    pub name: String,
    pub result: String,
    pub parameters: Vec<String>,
    pub names: Vec<String>,
}

impl Struct {
    /// Whether it begins with its size, so that it may grow.
    pub fn grows(&self) -> bool {
        self.fields[0].name == "struct_size"
    }
}

/// Reads a header. Panics where it does not look like one of cbindgen's.
pub fn read(header: &str) -> Vec<Declared> {
    let mut found = Vec::new();
    let mut code = String::new();
    let after_comment = &header[header.find("#ifndef KOSHI_H").expect("the header's guard")..];
    for line in after_comment.lines().map(str::trim).filter(|line| !line.starts_with("//")) {
        match line.strip_prefix("#define KOSHI_").and_then(|line| line.split_once(' ')) {
            Some((name, value)) => {
                found.push(Declared::Constant { name: format!("KOSHI_{name}"), value: number(value) })
            }
            None if line.starts_with('#') || line.starts_with(": ") || line.starts_with("extern \"C\"") => {}
            None => code += &format!(" {}", line.split("//").next().unwrap()),
        }
    }
    for item in items(&code) {
        found.extend(declared(&item));
    }
    found
}

/// Parts that end with a semicolon outside of braces.
fn items(code: &str) -> Vec<String> {
    let (mut found, mut item, mut depth) = (Vec::new(), String::new(), 0);
    for letter in code.chars() {
        match letter {
            '{' => depth += 1,
            '}' => depth -= 1,
            ';' if depth == 0 => {
                found.push(item.split_whitespace().collect::<Vec<_>>().join(" "));
                item.clear();
                continue;
            }
            _ => {}
        }
        // The brace of `extern "C"` closes behind everything.
        depth = depth.max(0);
        item.push(letter);
    }
    found
}

fn number(text: &str) -> i64 {
    text.trim().parse().unwrap_or_else(|_| panic!("{text} is not a number"))
}

fn declared(item: &str) -> Vec<Declared> {
    if let Some(body) = item.strip_prefix("enum ") {
        let (name, values) = body.split_once(" { ").unwrap();
        let mut found = vec![Declared::Enum { name: name.into() }];
        for value in values.trim_end_matches('}').split(',').filter(|value| !value.trim().is_empty()) {
            let (name, value) = value.split_once('=').unwrap();
            found.push(Declared::Constant { name: name.trim().into(), value: number(value) });
        }
        return found;
    }
    if let Some(body) = item.strip_prefix("typedef struct { ") {
        let (fields, name) = body.rsplit_once('}').unwrap();
        let fields =
            fields.split(';').filter(|field| !field.trim().is_empty()).map(|text| field(text.trim())).collect();
        return vec![Declared::Struct(Struct { name: name.trim().into(), fields })];
    }
    // Handles are opaque, and the names of enums in C are those of enums in C++.
    if item.starts_with("typedef struct ") || item.starts_with("typedef enum ") {
        return Vec::new();
    }
    if let Some(body) = item.strip_prefix("typedef ") {
        return match callback(body) {
            Some((name, result, parameters)) => vec![Declared::Callback { name, result, parameters }],
            None => {
                let (of, name) = split(body);
                if of == "int32_t" && name != "koshi_status" { Vec::new() } else { vec![Declared::Alias { name, of }] }
            }
        };
    }
    let (head, parameters) = item.split_once('(').unwrap_or_else(|| panic!("not a declaration: {item}"));
    let (result, name) = split(head);
    let (parameters, names) = split_all(parameters.trim_end_matches(')'));
    vec![Declared::Function(Function { name, result, parameters, names })]
}

fn field(text: &str) -> Field {
    if let Some((name, result, parameters)) = callback(text) {
        return Field { name, kind: Kind::Callback { result, parameters } };
    }
    let (of, name) = split(text);
    match name.trim_end_matches(']').split_once('[') {
        Some((name, count)) => Field { name: name.into(), kind: Kind::Array(of, count.parse().unwrap()) },
        None => Field { name, kind: Kind::Plain(of) },
    }
}

/// Name, result and parameters of a pointer to a function.
fn callback(text: &str) -> Option<(String, String, Vec<String>)> {
    let (result, rest) = text.split_once(" (*")?;
    let (name, parameters) = rest.split_once(")(")?;
    Some((name.into(), result.into(), split_all(parameters.trim_end_matches(')')).0))
}

/// Types and names of parameters.
fn split_all(parameters: &str) -> (Vec<String>, Vec<String>) {
    if parameters == "void" {
        return (Vec::new(), Vec::new());
    }
    parameters.split(',').map(|parameter| split(parameter.trim())).unzip()
}

/// Type and name of `const char *path`.
fn split(text: &str) -> (String, String) {
    let at = text.rfind([' ', '*']).unwrap_or_else(|| panic!("no name in {text}")) + 1;
    (text[..at].trim().into(), text[at..].into())
}

/// Size of each type on a machine of 64 bits; alignment is the size, but for structs.
pub fn sizes(all: &[Declared]) -> BTreeMap<String, (usize, usize)> {
    let mut sizes: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    for (name, size) in [("int32_t", 4), ("uint32_t", 4), ("float", 4), ("koshi_status", 4)] {
        sizes.insert(name.into(), (size, size));
    }
    for name in ["int64_t", "uint64_t", "double", "size_t"] {
        sizes.insert(name.into(), (8, 8));
    }
    for declared in all {
        if let Declared::Struct(made) = declared {
            let (_, size, align) = layout(made, &sizes);
            sizes.insert(made.name.clone(), (size, align));
        }
    }
    sizes
}

/// Offset of each field, size and alignment of the struct.
pub fn layout(made: &Struct, sizes: &BTreeMap<String, (usize, usize)>) -> (Vec<usize>, usize, usize) {
    let (mut offsets, mut end, mut most) = (Vec::new(), 0, 1);
    let of = |name: &str| if name.ends_with('*') { (8, 8) } else { sizes[name] };
    for field in &made.fields {
        let (size, align) = match &field.kind {
            Kind::Plain(name) => of(name),
            Kind::Array(name, count) => (of(name).0 * count, of(name).1),
            Kind::Callback { .. } => (8, 8),
        };
        end = usize::next_multiple_of(end, align);
        offsets.push(end);
        end += size;
        most = most.max(align);
    }
    (offsets, end.next_multiple_of(most), most)
}

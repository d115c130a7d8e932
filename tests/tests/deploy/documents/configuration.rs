//! `docs/configuration.md` is made from the declarations of the sections and from `deploy/scry.toml`.
//!
//! `SCRY_REWRITE=1 cargo test -p scry-tests --test deploy configuration` writes it anew.

use std::fmt::Write;

use scry_tests::root;
use toml::{Table, Value};

use super::{quoted, rows};
use crate::text;

const PAGE: &str = "docs/configuration.md";
const DECLARATIONS: &str = "agent/src/configuration/sections.rs";
const MARK: &str = "<!-- Below this line: made from ";

/// One section as the code declares it.
struct Section {
    name: String,
    fields: Vec<Field>,
}

/// One setting as the code declares it.
struct Field {
    name: String,
    kind: String,
    about: String,
}

/// Reads the declarations: comments, then `name: type = default,`, in blocks named by a comment such as `[node]`.
fn sections() -> Vec<Section> {
    let source = text(DECLARATIONS);
    let (_, source) = source
        .split_once("\nsections! {")
        .expect("the sections are declared by a macro");
    let mut sections: Vec<Section> = Vec::new();
    let mut about = Vec::new();
    for line in source.lines().map(str::trim) {
        if let Some(comment) = line.strip_prefix("///") {
            about.push(comment.trim().to_owned());
        } else if line.ends_with('{') {
            let said = about.join(" ");
            let name = quoted(&said)
                .first()
                .map_or("", |name| name.trim_matches(['[', ']']));
            sections.push(Section {
                name: name.to_owned(),
                fields: Vec::new(),
            });
            about.clear();
        } else if let Some((name, rest)) = line.split_once(": ") {
            let (kind, _) = rest.split_once(" = ").expect("every field has a default");
            let section = sections.last_mut().expect("fields are in sections");
            section.fields.push(Field {
                name: name.to_owned(),
                kind: kind.to_owned(),
                about: about.join(" "),
            });
            about.clear();
        } else if line == "}" && sections.last().is_some_and(|it| it.name == "admin") {
            break;
        }
    }
    assert!(sections.len() > 10, "the declarations can be read");
    sections
}

/// Says in words what a value may be; a type that is not here has to be put here.
fn words(kind: &str) -> &'static str {
    match kind {
        "u8" | "u32" | "u64" | "usize" | "i32" | "i64" => "number",
        "bool" => "true or false",
        "String" => "text",
        "PathBuf" => "path",
        "Option<NodeId>" => "number",
        "Vec<NodeId>" => "list of numbers",
        "Vec<String>" => "list of texts",
        "Vec<Peer>" => "list of `{ id, address }`",
        "Order" => "`least-harm` or `earliest`",
        "Mode" => "`off`, `audit` or `steer`",
        "Time" => "`fit` or `free`",
        "Source" => "`service`, `list` or `observed`",
        "Isolation" => "`off`, `speculator`, `clone` or `fork`",
        "BTreeMap<String, Mode>" => "table from property to mode",
        _ => panic!("{kind} has no words"),
    }
}

fn at<'a>(sample: &'a Table, section: &str, key: &str) -> &'a Value {
    let mut table = sample;
    for name in section.split('.') {
        table = table
            .get(name)
            .and_then(Value::as_table)
            .unwrap_or_else(|| panic!("deploy/scry.toml has no [{section}]"));
    }
    let value = table.get(key);
    value.unwrap_or_else(|| panic!("deploy/scry.toml has no {section}.{key}"))
}

/// Writes a value. Of what is in the sample, TOML and JSON write everything alike.
fn shown(value: &Value) -> String {
    serde_json::to_string(value).expect("a value can be written")
}

/// Writes the part of the page that is made.
fn made() -> String {
    let sample: Table = text("deploy/scry.toml")
        .parse()
        .expect("the sample is TOML");
    let sections = sections();
    let (whole, sections) = sections.split_first().expect("there are sections");
    let mut page = String::new();
    for section in sections {
        let about = whole.fields.iter().find(|field| field.name == section.name);
        let about = about.map_or("The faults a searched path may contain.", |field| {
            &field.about
        });
        let _ = write!(
            page,
            "\n## `[{}]`\n\n{about}\n\n| key | values | default | meaning |\n|---|---|---|---|\n",
            section.name
        );
        for field in &section.fields {
            if field.kind == "Faults" {
                continue;
            }
            let default = match (section.name.as_str(), field.name.as_str()) {
                ("node", "id") => "none".to_owned(),
                (section, key) => format!("`{}`", shown(at(&sample, section, key))),
            };
            let _ = writeln!(
                page,
                "| `{}` | {} | {default} | {} |",
                field.name,
                words(&field.kind),
                field.about.replace('|', "\\|")
            );
        }
    }
    page
}

#[test]
fn the_page_of_the_configuration_says_what_the_code_does() {
    let page = text(PAGE);
    let (head, tail) = page.split_once(MARK).expect("the page has its mark");
    let (mark, told) = tail.split_once('\n').expect("the mark is a line");
    let made = made();
    if std::env::var_os("SCRY_REWRITE").is_some() {
        let page = format!("{head}{MARK}{mark}\n{made}");
        std::fs::write(root().join(PAGE), page).expect("the page can be written");
        return;
    }
    assert_eq!(told, made, "{PAGE} is not what the code says");
}

#[test]
fn every_setting_of_the_sample_is_on_the_page_and_the_other_way_round() {
    let sample: Table = text("deploy/scry.toml")
        .parse()
        .expect("the sample is TOML");
    let mut expect = Vec::new();
    keys("", &sample, &mut expect);
    let page = text(PAGE);
    let (_, tables) = page.split_once(MARK).expect("the page has its mark");
    let mut told = Vec::new();
    for part in tables.split("\n## `[").skip(1) {
        let (section, rest) = part.split_once("]`").expect("a heading names its section");
        for row in rows(rest) {
            told.push(format!("{section}.{}", quoted(&row[0])[0]));
        }
    }
    expect.sort();
    told.sort();
    assert_eq!(told, expect);
}

/// Lists the settings; a table that an operator fills is a setting itself.
fn keys(section: &str, table: &Table, found: &mut Vec<String>) {
    for (key, value) in table {
        let name = match section {
            "" => key.clone(),
            section => format!("{section}.{key}"),
        };
        match value {
            Value::Table(table) if name != "properties.modes" => keys(&name, table, found),
            _ => found.push(name),
        }
    }
}

//! Texts of others, made fit to be shown: no letter of them commands a terminal, turns the direction of what follows, or
//! cannot be seen.

/// Tells whether a letter must not be shown as it is: a control character, one that turns the direction of text (U+202E
/// makes `gnp.exe` of `exe.png`), one without width, a separator of lines, or a tag.
pub fn is_unseen(letter: char) -> bool {
    letter.is_control()
        || matches!(letter,
            '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' | '\u{e0000}'..='\u{e007f}')
}

/// Writes a text with such letters as `\n` or `\u{202e}`.
pub fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for letter in text.chars() {
        match is_unseen(letter) {
            true => out.extend(letter.escape_default()),
            false => out.push(letter),
        }
    }
    out
}

/// Writes such letters of a JSON text as JSON does, `\u202e`: the value stays the same.
pub fn escaped_json(json: String) -> String {
    if json.is_ascii() || !json.contains(is_unseen) {
        return json;
    }
    let mut out = String::with_capacity(json.len() + 16);
    for letter in json.chars() {
        if letter.is_ascii() || !is_unseen(letter) {
            out.push(letter);
            continue;
        }
        for unit in letter.encode_utf16(&mut [0; 2]) {
            out += &format!("\\u{unit:04x}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_turns_or_hides_text_is_written_out() {
        let check = |text: &str, expect: &str| assert_eq!(escaped(text), expect);
        check("one root, ünd 日本 👍", "one root, ünd 日本 👍");
        check("exe.\u{202e}gnp", "exe.\\u{202e}gnp");
        check(
            "a\u{200b}b\u{2066}\u{feff}\n\u{1b}[2J",
            "a\\u{200b}b\\u{2066}\\u{feff}\\n\\u{1b}[2J",
        );
    }

    #[test]
    fn json_keeps_its_value() {
        let value = serde_json::json!({ "why": "a\u{202e}b\u{e0041}\n日" });
        let written = escaped_json(value.to_string());
        assert!(
            written.contains("\\u202e") && written.contains("日"),
            "{written}"
        );
        assert!(!written.contains(is_unseen), "{written}");
        let read: serde_json::Value = serde_json::from_str(&written).unwrap();
        assert_eq!(read, value);
    }
}

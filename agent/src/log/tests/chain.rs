//! The chain: whatever is done to the files shows, and what a crash leaves is no tampering.

use std::io::Write as _;
use std::path::PathBuf;

use super::*;
use crate::log::verify::{Verified, What as Found, verify};

/// A log of several small files, written in several incarnations.
fn log() -> (Scratch, writer::Options) {
    let scratch = Scratch::new();
    let small = writer::Options {
        file_bytes_max: 700,
        ..options(scratch.path())
    };
    for life in 0..4 {
        let mut writer = Writer::open(small.clone());
        write(&mut writer, life * 10..life * 10 + 10);
    }
    (scratch, small)
}

fn verified(scratch: &Scratch) -> Verified {
    verify(scratch.path(), None).unwrap()
}

fn wrong(scratch: &Scratch) -> Vec<Found> {
    let wrong = verified(scratch).wrong.into_iter();
    wrong.map(|finding| finding.what).collect()
}

fn lines(path: &PathBuf) -> Vec<String> {
    let text = fs::read_to_string(path).unwrap();
    text.lines().map(str::to_owned).collect()
}

fn save(path: &PathBuf, lines: &[String]) {
    fs::write(path, lines.join("\n") + "\n").unwrap();
}

fn seq(line: &str) -> u64 {
    let value: serde_json::Value = serde_json::from_str(line).unwrap();
    value["seq"].as_u64().unwrap()
}

#[test]
fn a_log_over_files_and_lives_is_whole() {
    let (scratch, small) = log();
    let verified = verified(&scratch);
    assert!(verified.wrong.is_empty(), "{:?}", verified.wrong);
    assert!(verified.notes.is_empty(), "{:?}", verified.notes);
    let head = verified.last.unwrap();
    assert_eq!(head.seq, 39);
    assert!(verified.first.unwrap() > 0, "the oldest were rotated out");
    assert_eq!(Writer::open(small).head(), Some(&head));
    // What status told earlier must be there.
    let line = &lines(&file(scratch.path(), 1))[0];
    let mut known = super::super::Head {
        seq: seq(line),
        hash: super::super::chain::hash(line.as_bytes()),
    };
    let ask = |known| verify(scratch.path(), Some(&known)).unwrap().wrong.len();
    assert_eq!(ask(known.clone()), 0);
    known.hash.replace_range(0..1, "x");
    assert_eq!(ask(known.clone()), 1);
    known.seq = 40;
    assert_eq!(ask(known), 1);
}

#[test]
fn a_changed_byte_shows_wherever_it_is() {
    let (scratch, _) = log();
    for age in 0..=3 {
        let path = file(scratch.path(), age);
        let bytes = fs::read(&path).unwrap();
        // Enough of them to meet every part of a record, in other places in each file.
        for at in (age as usize..bytes.len()).step_by(7) {
            let mut changed = bytes.clone();
            changed[at] ^= 1;
            fs::write(&path, &changed).unwrap();
            assert!(!wrong(&scratch).is_empty(), "byte {at} of {path:?}");
        }
        fs::write(&path, &bytes).unwrap();
    }
    assert!(wrong(&scratch).is_empty());
}

#[test]
fn an_altered_record_is_named() {
    let (scratch, _) = log();
    let path = file(scratch.path(), 1);
    let mut all = lines(&path);
    let altered = seq(&all[1]);
    all[1] = all[1].replace("number", "nomber");
    save(&path, &all);
    assert_eq!(wrong(&scratch), [Found::Altered { seq: altered }]);
}

#[test]
fn a_log_that_is_cut_anywhere_is_not_whole_also_after_the_next_start() {
    let (scratch, small) = log();
    let path = file(scratch.path(), 0);
    let bytes = fs::read(&path).unwrap();
    let named = fs::read(scratch.path().join("steering.head")).unwrap();
    // Without its last line end nothing is lost.
    for length in (0..bytes.len() - 1).step_by(5) {
        fs::write(&path, &bytes[..length]).unwrap();
        fs::write(scratch.path().join("steering.head"), &named).unwrap();
        let found = wrong(&scratch);
        assert!(
            matches!(found[..], [Found::EndMissing { to: 39, .. }]),
            "{length}: {found:?}"
        );
        let mut writer = Writer::open(writer::Options {
            file_bytes_max: 1 << 20,
            ..small.clone()
        });
        write(&mut writer, 40..41);
        let found = wrong(&scratch);
        assert!(
            matches!(found[..], [Found::Missing { to: 39, .. }]),
            "{length}: {found:?}"
        );
    }
}

#[test]
fn missing_records_and_files_are_told_with_their_numbers() {
    let (scratch, _) = log();
    let path = file(scratch.path(), 2);
    let all = lines(&path);
    let mut fewer = all.clone();
    let gone = seq(&fewer.remove(1));
    save(&path, &fewer);
    let expect = Found::Missing {
        from: gone,
        to: gone,
    };
    assert_eq!(wrong(&scratch), [expect]);

    fs::remove_file(&path).unwrap();
    let expect = Found::Missing {
        from: seq(&all[0]),
        to: seq(all.last().unwrap()),
    };
    assert_eq!(wrong(&scratch), [expect]);

    save(&path, &all);
    let oldest = lines(&file(scratch.path(), 3));
    fs::remove_file(file(scratch.path(), 3)).unwrap();
    let expect = Found::BeginningMissing {
        from: seq(&oldest[0]),
        to: seq(oldest.last().unwrap()),
    };
    assert_eq!(wrong(&scratch), [expect]);
    save(&file(scratch.path(), 3), &oldest);
    assert!(wrong(&scratch).is_empty());

    fs::remove_file(scratch.path().join("steering.head")).unwrap();
    assert_eq!(wrong(&scratch), [Found::NoHead]);
}

#[test]
fn what_somebody_wrote_into_a_log_shows() {
    let (scratch, _) = log();
    let path = file(scratch.path(), 1);
    let all = lines(&path);
    let with = |line: &str| {
        let mut more = all.clone();
        more.insert(1, line.to_owned());
        save(&path, &more);
        wrong(&scratch)
    };
    assert_eq!(with("hello"), [Found::NoRecord]);
    assert_eq!(with(r#"{"kind":"mode"}"#), [Found::Unchained]);
    let twice = Found::Misplaced { seq: seq(&all[0]) };
    assert_eq!(with(&all[0]), [twice]);
    let mut swapped = all.clone();
    swapped.swap(0, 1);
    save(&path, &swapped);
    assert!(!wrong(&scratch).is_empty());
}

#[test]
fn half_a_line_of_a_crash_is_told_apart_from_tampering() {
    let (scratch, small) = log();
    let half = br#"{"time":"2026-11-16T08:30:45.067Z","node":"n1","kind":"sto"#;
    let mut grown = fs::OpenOptions::new()
        .append(true)
        .open(file(scratch.path(), 0))
        .unwrap();
    grown.write_all(half).unwrap();
    let found = verified(&scratch);
    assert!(found.wrong.is_empty(), "{:?}", found.wrong);
    assert!(matches!(found.notes[..], [ref note] if note.what == Found::TornEnd));

    // The next incarnation says that it found it, and it stays apart from what somebody else puts there.
    write(&mut Writer::open(small), 40..42);
    let found = verified(&scratch);
    assert!(found.wrong.is_empty(), "{:?}", found.wrong);
    assert!(matches!(found.notes[..], [ref note] if note.what == Found::Torn));
    let (path, at) = found.notes[0].place.clone().unwrap();
    let mut all = lines(&path);
    all[at as usize - 1].push('!');
    save(&path, &all);
    assert_eq!(wrong(&scratch), [Found::NoRecord]);
}

#[test]
fn a_crash_before_the_head_was_named_changes_nothing() {
    let (scratch, small) = log();
    let small = writer::Options {
        file_bytes_max: 1 << 20,
        ..small
    };
    let named = fs::read(scratch.path().join("steering.head")).unwrap();
    write(&mut Writer::open(small.clone()), 40..41);
    fs::write(scratch.path().join("steering.head"), named).unwrap();
    assert!(wrong(&scratch).is_empty());
    write(&mut Writer::open(small), 41..42);
    assert!(wrong(&scratch).is_empty());
    assert_eq!(verified(&scratch).last.unwrap().seq, 41);
}

#[test]
fn records_of_a_version_without_a_chain_may_come_first() {
    let scratch = Scratch::new();
    let old = r#"{"time":"2026-11-16T08:30:45.067Z","node":"n1","kind":"stopped","why":"x"}"#;
    fs::write(file(scratch.path(), 0), format!("{old}\n{old}\n")).unwrap();
    write(&mut Writer::open(options(scratch.path())), 0..3);
    let found = verified(&scratch);
    assert!(found.wrong.is_empty(), "{:?}", found.wrong);
    assert_eq!((found.unchained, found.records), (2, 3));
}

#[test]
fn letters_that_turn_text_are_written_out_in_the_file() {
    let scratch = Scratch::new();
    let mut writer = Writer::open(options(scratch.path()));
    let why = "exe.\u{202e}gnp".to_owned();
    writer.write(Timestamp::from_millis(0), Entry::new(What::Stopped { why }));
    let text = fs::read_to_string(file(scratch.path(), 0)).unwrap();
    assert!(text.contains("exe.\\u202egnp"), "{text}");
    assert!(wrong(&scratch).is_empty());
}

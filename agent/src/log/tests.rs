//! Writer and reader together, on real files.

mod chain;

use std::fs;
use std::path::Path;

use scry_protocol::NodeId;
use scry_protocol::record::{Entry, Record, Timestamp, What};

use super::scratch::Scratch;
use super::{Reader, Writer, file, writer};

fn options(directory: &Path) -> writer::Options {
    writer::Options {
        directory: directory.to_owned(),
        node: NodeId::new(1),
        file_bytes_max: 1 << 20,
        files_kept: 3,
    }
}

fn stopped(number: usize) -> Entry {
    Entry::new(What::Stopped {
        why: format!("number {number}"),
    })
}

fn write(writer: &mut Writer, numbers: std::ops::Range<usize>) {
    for number in numbers {
        writer.write(Timestamp::from_millis(number as u64), stopped(number));
    }
}

/// The numbers of the records in some lines.
fn numbers(lines: &[String]) -> Vec<usize> {
    let number = |line: &String| {
        let record: Record = serde_json::from_str(line).expect("each line is a record");
        match record.entry.what {
            What::Stopped { why } => why.strip_prefix("number ")?.parse().ok(),
            _ => None,
        }
    };
    lines.iter().filter_map(number).collect()
}

#[test]
fn records_read_back_in_order_over_all_files_that_are_kept() {
    let scratch = Scratch::new();
    let small = writer::Options {
        file_bytes_max: 500,
        ..options(scratch.path())
    };
    let mut writer = Writer::open(small);
    write(&mut writer, 0..100);
    let lines = Reader::open(scratch.path()).unwrap().read().unwrap();
    let read = numbers(&lines);
    assert_eq!(*read.last().unwrap(), 99);
    assert_eq!(read, (read[0]..100).collect::<Vec<_>>());
    assert!(fs::metadata(file(scratch.path(), 0)).unwrap().len() <= 500);
    assert!(file(scratch.path(), 3).exists());
    assert!(
        !file(scratch.path(), 4).exists(),
        "only three are kept beside the growing one"
    );
    assert_eq!(writer.dropped(), 0);
}

#[test]
fn without_any_kept_file_the_log_begins_anew() {
    let scratch = Scratch::new();
    let mut writer = Writer::open(writer::Options {
        file_bytes_max: 200,
        files_kept: 0,
        ..options(scratch.path())
    });
    write(&mut writer, 0..10);
    assert!(!file(scratch.path(), 1).exists());
    assert!(fs::metadata(file(scratch.path(), 0)).unwrap().len() <= 200);
}

#[test]
fn a_follower_misses_nothing_while_files_turn_over() {
    let scratch = Scratch::new();
    let mut writer = Writer::open(writer::Options {
        file_bytes_max: 500,
        files_kept: 20,
        ..options(scratch.path())
    });
    let mut reader = Reader::open(scratch.path()).unwrap();
    let mut read = Vec::new();
    // Steps of very different sizes: within a file, over one turn, over several.
    for (from, to) in [(0, 1), (1, 3), (3, 3), (3, 12), (12, 60), (60, 61)] {
        write(&mut writer, from..to);
        read.extend(numbers(&reader.read().unwrap()));
        assert_eq!(read, (0..to).collect::<Vec<_>>());
    }
}

#[test]
fn a_follower_of_the_growing_file_goes_on_with_the_new_one() {
    let scratch = Scratch::new();
    let mut writer = Writer::open(writer::Options {
        file_bytes_max: 300,
        ..options(scratch.path())
    });
    write(&mut writer, 0..1);
    let mut reader = Reader::open(&file(scratch.path(), 0)).unwrap();
    let mut read = numbers(&reader.read().unwrap());
    for number in 1..20 {
        write(&mut writer, number..number + 1);
        read.extend(numbers(&reader.read().unwrap()));
    }
    assert_eq!(read, (0..20).collect::<Vec<_>>());
}

#[test]
fn half_a_line_is_not_returned_before_its_end() {
    use std::io::Write;
    let scratch = Scratch::new();
    let path = scratch.path().join("steering.jsonl");
    let mut open = fs::File::create(&path).unwrap();
    let mut reader = Reader::open(&path).unwrap();
    open.write_all(b"{\"half\":").unwrap();
    assert!(reader.read().unwrap().is_empty());
    open.write_all(b"1}\n{").unwrap();
    assert_eq!(reader.read().unwrap(), ["{\"half\":1}"]);
}

#[test]
fn a_line_without_end_does_not_fill_the_memory() {
    let scratch = Scratch::new();
    let path = scratch.path().join("steering.jsonl");
    let mut content = vec![b'x'; 5 << 20];
    content.extend(b"\n{}\n");
    fs::write(&path, content).unwrap();
    assert_eq!(Reader::open(&path).unwrap().read().unwrap(), ["{}"]);
}

#[test]
fn a_full_disk_costs_records_is_told_once_it_is_over_and_fails_nothing() {
    let scratch = Scratch::new();
    let growing = file(scratch.path(), 0);
    std::os::unix::fs::symlink("/dev/full", &growing).unwrap();
    let mut writer = Writer::open(options(scratch.path()));
    write(&mut writer, 0..5);
    assert_eq!(writer.dropped(), 5);
    // The disk has room again: here, another file lies under the name, and the writer is opened anew on it.
    fs::remove_file(&growing).unwrap();
    writer.turn_over_for_tests();
    write(&mut writer, 5..7);
    let lines = Reader::open(scratch.path()).unwrap().read().unwrap();
    let first: Record = serde_json::from_str(&lines[0]).unwrap();
    assert!(
        matches!(&first.entry.what, What::FailedOpen { failure, count: 5, .. } if failure == "log-full"),
        "{}",
        lines[0]
    );
    assert_eq!(numbers(&lines), [5, 6]);
    assert_eq!(writer.dropped(), 5);
}

#[test]
fn a_directory_that_cannot_be_made_costs_records_until_it_can() {
    let scratch = Scratch::new();
    let blocked = scratch.path().join("log");
    fs::write(&blocked, b"a file where the directory should be").unwrap();
    let mut writer = Writer::open(options(&blocked));
    write(&mut writer, 0..3);
    assert_eq!(writer.dropped(), 3);
    fs::remove_file(&blocked).unwrap();
    write(&mut writer, 3..4);
    assert_eq!(
        numbers(&Reader::open(&blocked).unwrap().read().unwrap()),
        [3]
    );
}

#[test]
fn what_a_crash_left_of_a_line_does_not_spoil_the_next() {
    let scratch = Scratch::new();
    fs::write(file(scratch.path(), 0), b"{\"time\":\"2026-").unwrap();
    let mut writer = Writer::open(options(scratch.path()));
    write(&mut writer, 0..1);
    let lines = Reader::open(scratch.path()).unwrap().read().unwrap();
    assert_eq!(lines.len(), 2);
    assert_eq!(numbers(&lines[1..]), [0]);
}

#[test]
fn a_wall_clock_that_jumps_back_changes_nothing_but_what_is_written() {
    let scratch = Scratch::new();
    let mut writer = Writer::open(options(scratch.path()));
    writer.write(Timestamp::from_millis(2_000_000_000_000), stopped(0));
    writer.write(Timestamp::from_millis(1_000), stopped(1));
    assert_eq!(
        numbers(&Reader::open(scratch.path()).unwrap().read().unwrap()),
        [0, 1]
    );
}

//! What a host keeps of its numbers and incarnations, and how far that is believed.

use std::path::{Path, PathBuf};

use proptest::prelude::*;
use scry_protocol::{CheckpointNumber, Incarnation};

use super::rig::Directory;
use crate::hook::number::{Numbers, parse, write};

const CLOCK_MS: u64 = 1_790_000_000_000;

fn begin(path: &Path, clock_ms: u64) -> Numbers {
    let path = Some(path.to_owned());
    let (chance, least) = (clock_ms.wrapping_mul(0x9e37_79b9), CheckpointNumber::ZERO);
    let incarnation = Incarnation::of_clock(clock_ms, chance);
    Numbers::begin(path, clock_ms, incarnation, chance, least)
}

fn scratch() -> (Directory, PathBuf) {
    let folder = Directory::new();
    let path = folder.join("numbers");
    (folder, path)
}

#[test]
fn lives_and_numbers_go_on_whatever_the_clock_says() {
    let (_folder, path) = scratch();
    let mut last = begin(&path, CLOCK_MS);
    for clock_ms in [CLOCK_MS - 86_400_000, 0, CLOCK_MS + 86_400_000, 5] {
        let reached = last.born().ahead(5_000).expect("small");
        last.reserve(reached);
        let mut next = begin(&path, clock_ms);
        assert!(next.incarnation().is_after(last.incarnation()));
        assert!(next.born() > reached);
        assert_eq!(next.take_unfit(), None);
        last = next;
    }
}

#[test]
fn an_absurd_number_is_not_believed_and_the_next_incarnation_comes_after_the_stored_one() {
    let (_folder, path) = scratch();
    let life = Incarnation::new(u64::MAX);
    write(&path, CheckpointNumber::MAX, life).expect("written");
    let mut numbers = begin(&path, CLOCK_MS);
    assert!(numbers.born().get() > CLOCK_MS);
    assert!(numbers.incarnation().is_after(life));
    assert!(numbers.take_unfit().is_some());
    assert_eq!(
        begin(&path, CLOCK_MS).take_unfit(),
        None,
        "it has been begun anew"
    );
    // As a version without a check wrote it.
    std::fs::write(&path, format!("{}\n", 1_u64 << 62)).expect("written");
    let later = begin(&path, CLOCK_MS + 1_000);
    assert!(
        later.born() > numbers.born(),
        "above what was reached meanwhile"
    );
}

/// Two processes begin with the same file: what one of them wrote is gone.
#[test]
fn a_file_that_was_set_back_gives_no_incarnation_twice() {
    let (_folder, path) = scratch();
    begin(&path, CLOCK_MS);
    let backup = std::fs::read(&path).expect("written");
    let one = begin(&path, CLOCK_MS + 1_000);
    std::fs::write(&path, backup).expect("written");
    let other = begin(&path, CLOCK_MS + 2_000);
    assert_ne!(one.incarnation(), other.incarnation());
}

#[test]
fn the_file_of_an_earlier_version_is_read() {
    let (_folder, path) = scratch();
    std::fs::write(&path, "4711\n").expect("written");
    assert_eq!(begin(&path, CLOCK_MS).born().get(), 4711);
}

#[test]
fn a_damaged_file_is_not_believed() {
    let (_folder, path) = scratch();
    begin(&path, CLOCK_MS);
    let text = std::fs::read_to_string(&path).expect("written");
    std::fs::write(&path, text.replacen('4', "5", 1)).expect("written");
    let mut numbers = begin(&path, CLOCK_MS);
    assert!(numbers.take_unfit().is_some());
    assert!(numbers.born().get() > CLOCK_MS);
}

proptest! {
    #[test]
    fn what_is_in_the_file_never_panics(text: String) {
        let _ = parse(&text);
    }
}

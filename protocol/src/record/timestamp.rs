//! A moment of the wall clock, written as RFC 3339 in UTC with milliseconds.
//!
//! Only for people and for other machines: no decision depends on it, since a wall clock may jump.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

const DAY_MS: u64 = 24 * 60 * 60 * 1000;
/// The last moment of the year 9999, after which RFC 3339 has no way to write one.
const MILLIS_MAX: u64 = 253_402_300_799_999;

/// Milliseconds since the beginning of 1970, UTC.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Timestamp(u64);

/// Why a text is not a moment.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "a moment is written as `2026-11-16T08:30:00Z`, with or without a fraction of a second, in UTC"
)]
pub struct ParseTimestampError;

impl Timestamp {
    /// Wraps milliseconds since the beginning of 1970; what lies after the year 9999 becomes its end.
    pub const fn from_millis(millis: u64) -> Self {
        Self(if millis > MILLIS_MAX {
            MILLIS_MAX
        } else {
            millis
        })
    }

    /// Returns the milliseconds since the beginning of 1970.
    pub const fn as_millis(self) -> u64 {
        self.0
    }
}

/// Year, month and day of a day counted from the beginning of 1970. Years begin in March here, so that the leap day is
/// a year's last and every month's beginning is a linear function of its number.
fn date_of(day: u64) -> (u64, u64, u64) {
    // 719 468 days lie between the first of March of the year 0 and the beginning of 1970.
    let day = day + 719_468;
    let (era, of_era) = (day / 146_097, day % 146_097);
    let year_of_era = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month = (5 * of_year + 2) / 153;
    let day_of_month = of_year - (153 * month + 2) / 5 + 1;
    let (year, month) = match month {
        0..10 => (era * 400 + year_of_era, month + 3),
        _ => (era * 400 + year_of_era + 1, month - 9),
    };
    (year, month, day_of_month)
}

/// The inverse of [`date_of`]; `None` for a date that is none, or lies before 1970.
fn day_of(year: u64, month: u64, day: u64) -> Option<u64> {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let length = match month {
        2 => 28 + u64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if !(1..=length).contains(&day) || !(1970..=9999).contains(&year) {
        return None;
    }
    let (year, month) = match month {
        3.. => (year, month - 3),
        _ => (year - 1, month + 9),
    };
    let (era, of_era) = (year / 400, year % 400);
    let of_year = (153 * month + 2) / 5 + day - 1;
    Some(era * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468)
}

impl fmt::Display for Timestamp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (year, month, day) = date_of(self.0 / DAY_MS);
        let millis = self.0 % DAY_MS;
        let (hour, minute) = (millis / 3_600_000, millis / 60_000 % 60);
        let (second, fraction) = (millis / 1_000 % 60, millis % 1_000);
        f.pad(&format!(
            "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:03}Z"
        ))
    }
}

impl FromStr for Timestamp {
    type Err = ParseTimestampError;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        read(text).ok_or(ParseTimestampError)
    }
}

fn read(text: &str) -> Option<Timestamp> {
    let number = |from: usize, to: usize| -> Option<u64> {
        let digits = text.get(from..to)?;
        let all = digits.bytes().all(|byte| byte.is_ascii_digit());
        all.then(|| digits.parse().ok()).flatten()
    };
    let mark = |at: usize, marks: &[u8]| {
        let byte = text.as_bytes().get(at)?;
        marks.contains(byte).then_some(())
    };
    for (at, marks) in [
        (4, b"--"),
        (7, b"--"),
        (10, b"T "),
        (13, b"::"),
        (16, b"::"),
    ] {
        mark(at, marks)?;
    }
    let day = day_of(number(0, 4)?, number(5, 7)?, number(8, 10)?)?;
    let (hour, minute, second) = (number(11, 13)?, number(14, 16)?, number(17, 19)?);
    if hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let rest = text.get(19..)?.strip_suffix(['Z', 'z'])?;
    let fraction = match rest.strip_prefix('.') {
        Some(digits) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            let padded: String = digits.chars().chain("00".chars()).take(3).collect();
            padded.parse().ok()?
        }
        None if rest.is_empty() => 0,
        _ => return None,
    };
    let seconds = hour * 3_600 + minute * 60 + second;
    Some(Timestamp(day * DAY_MS + seconds * 1_000 + fraction))
}

impl Serialize for Timestamp {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Timestamp {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_moments_are_written_as_everybody_writes_them() {
        let check = |millis: u64, text: &str| {
            assert_eq!(Timestamp::from_millis(millis).to_string(), text);
            assert_eq!(text.parse(), Ok(Timestamp::from_millis(millis)));
        };
        check(0, "1970-01-01T00:00:00.000Z");
        check(951_782_399_999, "2000-02-28T23:59:59.999Z");
        check(951_782_400_000, "2000-02-29T00:00:00.000Z");
        check(951_868_800_000, "2000-03-01T00:00:00.000Z");
        check(1_709_164_800_000, "2024-02-29T00:00:00.000Z");
        check(1_794_817_845_067, "2026-11-16T08:30:45.067Z");
        check(MILLIS_MAX, "9999-12-31T23:59:59.999Z");
        check(u64::MAX, "9999-12-31T23:59:59.999Z");
    }

    #[test]
    fn what_is_no_moment_is_refused() {
        for text in [
            "",
            "2026-11-16",
            "2026-02-30T00:00:00Z",
            "2025-02-29T00:00:00Z",
            "2026-13-01T00:00:00Z",
            "2026-11-16T24:00:00Z",
            "2026-11-16T08:30:45",
            "2026-11-16T08:30:45.Z",
            "2026-11-16T08:30:45+01:00",
            "1969-12-31T23:59:59Z",
            "+026-11-16T08:30:45Z",
            "2026-11-16Tä8:30:45Z",
        ] {
            assert_eq!(
                text.parse::<Timestamp>(),
                Err(ParseTimestampError),
                "{text}"
            );
        }
        assert_eq!(
            "2026-11-16T08:30:45.5Z".parse(),
            Ok(Timestamp::from_millis(1_794_817_845_500))
        );
    }

    proptest! {
        #[test]
        fn every_moment_reads_back(millis in 0..=MILLIS_MAX) {
            let moment = Timestamp::from_millis(millis);
            prop_assert_eq!(moment.to_string().parse(), Ok(moment));
        }

        #[test]
        fn later_moments_sort_later_as_text(one in 0..=MILLIS_MAX, other in 0..=MILLIS_MAX) {
            let (one, other) = (Timestamp::from_millis(one), Timestamp::from_millis(other));
            prop_assert_eq!(one.cmp(&other), one.to_string().cmp(&other.to_string()));
        }

        #[test]
        fn no_text_panics(text in "\\PC{0,30}") {
            let _ = text.parse::<Timestamp>();
        }
    }
}

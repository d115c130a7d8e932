//! Every setting of a strategy as an option of `check`: `--walks 5` for `--set walks=5`, and where several settings are of one sort,
//! `--weight call=5` for `--set weight.call=5`.
//!
//! The options are made of what strategies say of themselves, so that a new strategy brings its own. Where the service has an option
//! of that name already, that one stays what it is, and the setting is set by `--set`.

use std::collections::BTreeMap;

use clap::{Arg, ArgAction, ArgMatches, Command};
use scry_engine::Strategy;
use scry_engine::explore::strategy::{Kind, Setting};

/// Something that was set by an option of its own.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Chosen {
    /// The option, without dashes.
    pub(super) option: &'static str,
    /// What was given.
    pub(super) value: String,
}

/// What one option can set: settings of one name, or of one sort.
type Group = Vec<(Strategy, Setting)>;

/// Lists the options by name. That of a strategy's setting comes where the strategy does in its list.
fn groups() -> Vec<(&'static str, Group)> {
    let mut names: Vec<&'static str> = Vec::new();
    let mut groups: BTreeMap<&'static str, Group> = BTreeMap::new();
    for strategy in Strategy::all() {
        for &setting in strategy.settings() {
            let name = option(setting.name);
            if !groups.contains_key(name) {
                names.push(name);
            }
            groups.entry(name).or_default().push((strategy, setting));
        }
    }
    let take = |name| (name, groups.remove(name).unwrap_or_default());
    names.into_iter().map(take).collect()
}

/// Returns the option that sets a setting.
pub(super) fn option(setting: &'static str) -> &'static str {
    setting.split_once('.').map_or(setting, |(sort, _)| sort)
}

/// Adds the options to `check`, and lists those that it added.
pub(super) fn add(mut check: Command) -> (Command, Vec<&'static str>) {
    let mut added = Vec::new();
    for (name, group) in groups() {
        let is_taken = |it: &Arg| it.get_long() == Some(name) || it.get_id() == name;
        if check.get_arguments().any(is_taken) {
            continue;
        }
        check = check.arg(argument(name, &group));
        added.push(name);
    }
    (check, added)
}

fn argument(name: &'static str, group: &Group) -> Arg {
    let is_sort = group.iter().any(|(_, setting)| setting.name != name);
    let is_switch = group
        .iter()
        .all(|(_, setting)| matches!(setting.kind, Kind::Switch(_)));
    let argument = Arg::new(name)
        .long(name)
        .help(help(name, group))
        .help_heading("Settings of strategies");
    match (is_sort, is_switch) {
        (true, _) => argument.value_name("KIND=VALUE").action(ArgAction::Append),
        (false, true) => argument
            .value_name("on|off")
            .num_args(0..=1)
            .require_equals(true)
            .default_missing_value("on"),
        (false, false) => argument.value_name("NUMBER"),
    }
}

/// Says what an option does, for each strategy that has it, once where they say the same.
fn help(name: &str, group: &Group) -> String {
    let mut lines: Vec<(String, Vec<&str>)> = Vec::new();
    for (strategy, setting) in group {
        let (about, kind) = (setting.about, setting.kind);
        let part = match setting.name.strip_prefix(name) {
            Some(part) if !part.is_empty() => format!("{}: ", &part[1..]),
            _ => String::new(),
        };
        let line = format!("{part}{about} [default: {kind}]");
        match lines.iter_mut().find(|(known, _)| *known == line) {
            Some((_, strategies)) => strategies.push(strategy.name()),
            None => lines.push((line, vec![strategy.name()])),
        }
    }
    let mut lines = lines
        .into_iter()
        .map(|(line, strategies)| format!("{}: {line}", strategies.join(", ")));
    let first = lines.next().unwrap_or_default();
    lines.fold(first, |text, line| text + "\n" + &line)
}

/// Reads what was given for the options that were added.
pub(super) fn read(matches: &ArgMatches, added: &[&'static str]) -> Vec<Chosen> {
    let values = added.iter().flat_map(|&option| {
        let given = matches.get_many::<String>(option).into_iter().flatten();
        given.map(move |value| Chosen {
            option,
            value: value.clone(),
        })
    });
    values.collect()
}

impl Chosen {
    /// Returns the setting and its value.
    ///
    /// # Errors
    ///
    /// When the option is of several settings and does not say which.
    pub(super) fn setting(&self) -> Result<(String, String), String> {
        let Self { option, value } = self;
        let groups = groups();
        let group = groups.iter().find(|(name, _)| name == option);
        let of_sort = group.map_or(&[][..], |(_, group)| group.as_slice());
        let parts: Vec<&str> = of_sort
            .iter()
            .filter_map(|(_, setting)| setting.name.split_once('.'))
            .map(|(_, part)| part)
            .collect();
        if parts.is_empty() {
            return Ok(((*option).to_owned(), value.clone()));
        }
        match value.split_once('=') {
            Some((part, value)) if parts.contains(&part.trim()) => {
                Ok((format!("{option}.{}", part.trim()), value.trim().to_owned()))
            }
            _ => Err(format!(
                "--{option} {value}: give one of {} and a value, such as {}=1",
                parts.join(", "),
                parts[0]
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_setting_of_every_strategy_is_an_option() {
        let (command, added) = add(Command::new("check"));
        command.debug_assert();
        for strategy in Strategy::all() {
            for setting in strategy.settings() {
                assert!(added.contains(&option(setting.name)), "{}", setting.name);
            }
        }
    }

    #[test]
    fn an_option_of_the_service_stays_what_it_is() {
        let own = Arg::new("mine").long("walks").action(ArgAction::SetTrue);
        let (command, added) = add(Command::new("check").arg(own));
        command.debug_assert();
        assert!(!added.contains(&"walks") && added.contains(&"length"));
    }

    #[test]
    fn what_was_given_is_read() {
        let (command, added) = add(Command::new("check"));
        let read = |arguments: &[&str]| {
            let matches = command.clone().try_get_matches_from(arguments);
            let chosen = matches.map(|matches| super::read(&matches, &added));
            let chosen = chosen.map_err(|error| error.to_string())?;
            chosen
                .iter()
                .map(Chosen::setting)
                .collect::<Result<Vec<_>, _>>()
        };
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let given = [
            "check",
            "--walks",
            "5",
            "--weight",
            "call=3",
            "--weight",
            "timer=0",
            "--raise-length",
        ];
        let mut expected = [
            pair("walks", "5"),
            pair("weight.call", "3"),
            pair("weight.timer", "0"),
            pair("raise-length", "on"),
        ];
        let mut found = read(&given).expect("they are read");
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
        assert_eq!(
            read(&["check", "--cycles=off"]),
            Ok(vec![pair("cycles", "off")])
        );
        for wrong in [
            &["check", "--weight", "5"][..],
            &["check", "--weight", "sun=5"],
        ] {
            let said = read(wrong).expect_err("it is refused");
            assert!(said.contains("call, message, timer, fault"), "{said}");
        }
        for wrong in [
            &["check", "--walks"][..],
            &["check", "--walks", "1", "--walks", "2"],
        ] {
            assert!(read(wrong).is_err());
        }
    }
}

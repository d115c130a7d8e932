//! What the check is told and cannot use: rules that do not fit, judgements without an end, neighbors' states that are too old
//! or unreadable.

use super::*;

pub(super) fn unfit_rules() {
    let mut unfit = rules(Isolate::Clone);
    unfit.properties =
        "[[property]]\nname = \"x\"\nalways = \"nodes.all(n, n.height < 3)\"\n".into();
    let mut check = check(unfit);
    passes(&mut check, 0, Message::Set(10));
    assert_eq!(failures(&mut check), [Failure::RulesUnfit]);
    let mut fit = rules(Isolate::Clone);
    fit.properties = "[[property]]\nname = \"x\"\nalways = \"nodes.all(n, n.count < 3)\"\n".into();
    check.set_rules(fit);
    vetoes(&mut check, 0, Message::Set(3), "x");
}

pub(super) fn cuts_off_judgements() {
    for form in FORMS {
        let mut short = rules(form);
        short.properties =
            "[[property]]\nname = \"x\"\nsteps = 1\nalways = \"nodes.all(n, [1, 2, 3].all(i, n.count < i + 1))\"\n".into();
        let mut check = check(short);
        passes(&mut check, 0, Message::Set(10));
        passes(&mut check, 0, Message::Set(11));
        assert_eq!(failures(&mut check), [Failure::JudgementCutOff]);
        let mut free = rules(form);
        free.properties =
            "[[property]]\nname = \"x\"\nsteps = 0\nalways = \"nodes.all(n, [1, 2, 3].all(i, n.count < i + 1))\"\n".into();
        check.set_rules(free);
        vetoes(&mut check, 0, Message::Set(10), "x");
    }
}

pub(super) fn forgets_stale() {
    for form in FORMS {
        let mut rules = rules(form);
        rules.surroundings_age_ms_max = 0;
        let mut check = check(rules);
        check.set_surroundings(neighbor(5));
        until("too old", || {
            matches!(examine(&mut check, 0, Message::Set(5)), Examined::Pass(_))
        });
        assert_eq!(failures(&mut check), [Failure::SurroundingsStale]);
        vetoes(&mut check, 0, Message::Set(10), "small");
    }
}

pub(super) fn leaves_out_unreadable() {
    let mut check = check(rules(Isolate::Clone));
    let mut surroundings = neighbor(5);
    let content = Content {
        incarnation: Incarnation::new(1),
        born: CheckpointNumber::from(1),
        past: Past::default(),
        state: vec![0xc1],
        timers: Vec::new(),
        channels: None,
    };
    surroundings.neighbors.push(Neighbor {
        node: NodeId::new(3),
        number: CheckpointNumber::from(1),
        present: true,
        lasting: Vec::new(),
        body: content.write().expect("small"),
    });
    check.set_surroundings(surroundings);
    refuses_after_a_look(&mut check, 0, Message::Set(5));
    assert_eq!(failures(&mut check), [Failure::SurroundingsUnreadable]);
}

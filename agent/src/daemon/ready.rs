//! Whether an agent can do its work: what `/readyz` answers.
//!
//! Ready is who can protect the service beside it. That is not who is alive: an agent without a service lives. An agent
//! that is switched off has nothing to do and is ready, so that a kill switch never takes a service out of rotation.
//! Peers are dialled when there is something to say, so that one without a connection says nothing.

/// What is known about that.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Standing {
    /// Whether nothing is to be predicted or steered.
    pub(super) is_off: bool,
    /// Whether a service is attached.
    pub(super) host_attached: bool,
    /// Whether snapshots are searched here, and the checker is up.
    pub(super) searches: bool,
    pub(super) checker_ready: bool,
    /// Whether snapshots with peers are gathered by themselves, and one was since the service attached.
    pub(super) gathers: bool,
    pub(super) has_gathered: bool,
}

/// Says what is missing; nothing if the agent is ready.
pub(super) fn waits_for(standing: Standing) -> Vec<&'static str> {
    if standing.is_off {
        return Vec::new();
    }
    let Standing {
        host_attached,
        searches,
        checker_ready,
        gathers,
        has_gathered,
        ..
    } = standing;
    [
        (!host_attached, "no service is attached"),
        (searches && !checker_ready, "the checker is not up"),
        (
            gathers && !has_gathered,
            "no snapshot was gathered since the service attached",
        ),
    ]
    .into_iter()
    .filter_map(|(is_missing, what)| is_missing.then_some(what))
    .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ready_is_who_can_protect_the_service() {
        let ready = Standing {
            is_off: false,
            host_attached: true,
            searches: true,
            checker_ready: true,
            gathers: true,
            has_gathered: true,
        };
        assert_eq!(waits_for(ready), [""; 0]);
        let check = |standing, expect| assert_eq!(waits_for(standing), [expect]);
        let host_attached = false;
        check(
            Standing {
                host_attached,
                ..ready
            },
            "no service is attached",
        );
        let checker_ready = false;
        let checkerless = Standing {
            checker_ready,
            ..ready
        };
        check(checkerless, "the checker is not up");
        let has_gathered = false;
        let blind = Standing {
            has_gathered,
            ..ready
        };
        check(blind, "no snapshot was gathered since the service attached");
        assert_eq!(waits_for(Standing::default()), ["no service is attached"]);
        // What is not done need not be possible.
        let searches = false;
        assert_eq!(
            waits_for(Standing {
                searches,
                ..checkerless
            }),
            [""; 0]
        );
        let gathers = false;
        assert_eq!(waits_for(Standing { gathers, ..blind }), [""; 0]);
    }

    #[test]
    fn a_kill_switch_makes_nobody_unready() {
        let off = Standing {
            is_off: true,
            searches: true,
            gathers: true,
            ..Standing::default()
        };
        assert_eq!(waits_for(off), [""; 0]);
    }
}

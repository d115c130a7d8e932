#!/bin/sh
# Runs as root in a machine of its own that systemd has booted. Says what it sees, line by line; the test reads it.
say() { echo "$*"; }
# Waits for a condition, not for a time: the test gives up on the whole machine.
until_true() { while ! "$@" >/dev/null 2>&1; do sleep 0.2; done; }
show() { systemctl show --property "$1" --value "$2"; }

if dpkg --install /trial/scry.deb; then say "installed $(dpkg-query --show --showformat '${Status} ${Version}' scry)"; fi
say "user $(getent passwd scry | cut -d : -f 1,7)"
say "folders $(stat --format '%n %U %a' /run/scry /var/log/scry | tr '\n' ' ')"
say "enabled $(systemctl is-enabled scry-agent)"
say "manual $(ls /usr/share/man/man1/scry-agent.1.gz)"

# A file that is none ends the unit at once, and nothing tries again.
cp /etc/scry/scry.toml /trial/sample.toml
echo 'nonsense' > /etc/scry/scry.toml
if systemctl start scry-agent; then say "bad started"; fi
say "bad $(show ActiveState scry-agent) $(show ExecMainStatus scry-agent) restarts $(show NRestarts scry-agent)"

# A service and its agent, each a unit, both as the service's user.
cp /trial/scry.toml /etc/scry/scry.toml
systemctl reset-failed scry-agent
systemctl start tree
systemctl start scry-agent
say "started $(show ActiveState scry-agent) $(show SubState scry-agent)"
until_true scry probe readyz
say "ready $(scry probe livez && echo alive)"
say "status $(scry status --json | tr -d '\n')"
systemctl reload scry-agent
until_true sh -c 'scry status --json | grep -q "\"reloads\": 1"'
say "reloaded"

# What kills it does not end it, and its service does not notice.
systemctl kill --signal KILL scry-agent
until_true sh -c '[ "$(systemctl show --property NRestarts --value scry-agent)" = 1 ]'
until_true scry probe readyz
say "restarted tree $(show ActiveState tree) restarts $(show NRestarts tree)"

# The kill file outlives the agent, and an agent that is off is ready: nobody is taken out of rotation.
touch /run/scry/off
until_true sh -c 'scry status | grep -q "kill file"'
say "off $(scry probe readyz && echo ready)"
systemctl stop scry-agent
say "stopped $(show ActiveState scry-agent) $(show Result scry-agent) $(ls /run/scry/off)"
say "journal $(journalctl --unit scry-agent --no-pager --output cat | grep --count 'the agent ends')"

dpkg --purge scry
say "purged $(ls -d /usr/bin/scry /etc/scry/scry.toml /usr/lib/systemd/system/scry-agent.service /var/log/scry /run/scry 2>/dev/null | wc -l) left"
say "user stays $(getent passwd scry | cut -d : -f 1)"
say "tree $(show ActiveState tree)"
say "end"

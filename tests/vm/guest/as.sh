#!/bin/sh
# Runs a command in the machine as one of the situations in which the program must work:
#
#   as.sh root COMMAND…          root, from a system service without delegation
#   as.sh user COMMAND…          an ordinary user with lingering, in a login session with the user's bus
#   as.sh lone COMMAND…          an ordinary user with no session and no bus
#   as.sh service COMMAND…       a system service with Delegate=yes, run by root
#   as.sh service-user COMMAND…  a system service with Delegate=yes and User=
#
# The environment is passed on, but for what names the home, the session and the bus.
set -eu
situation=$1
shift
user=tester
unset DBUS_SESSION_BUS_ADDRESS XDG_RUNTIME_DIR XDG_SESSION_ID INVOCATION_ID JOURNAL_STREAM SYSTEMD_EXEC_PID

# as_service PROPERTY… -- COMMAND…: the environment goes along by name, so no quoting can go wrong.
as_service() {
        names=$(env -0 | tr '\n' ' ' | tr '\0' '\n' | sed -n 's/^\([A-Za-z_][A-Za-z0-9_]*\)=.*/--setenv=\1/p')
        # shellcheck disable=SC2086 # a list of words
        exec systemd-run --quiet --pipe --wait --collect --same-dir $names "$@"
}

case $situation in
root)
        exec "$@"
        ;;
user)
        if ! [ -e "/var/lib/systemd/linger/$user" ]; then
                loginctl enable-linger "$user"
                systemctl start "user@$(id -u "$user").service" # returns when the user's manager is ready
        fi
        unset HOME
        as_service --uid="$user" --property=PAMName=login -- "$@"
        ;;
lone)
        export HOME=/home/loner USER=loner LOGNAME=loner
        exec setpriv --reuid loner --regid loner --clear-groups "$@"
        ;;
service)
        as_service --property=Delegate=yes -- "$@"
        ;;
service-user)
        unset HOME
        as_service --property=Delegate=yes --uid="$user" -- "$@"
        ;;
*)
        echo "as.sh: there is no situation '$situation'" >&2
        exit 2
        ;;
esac

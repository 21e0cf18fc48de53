# A PostgreSQL server of its own, on a Unix socket, as a user without rights. Loaded after common.bash:
# load lib/postgres
#
# A suite calls postgres_start in setup_file and postgres_stop in teardown_file; a test calls
# postgres_database, after which psql needs no arguments.
#
# shellcheck shell=bash

# The folder with the server's programs, which Debian keeps out of the PATH.
_postgres_programs() {
    local folder
    for folder in /usr/lib/postgresql/*/bin /usr/pgsql-*/bin /usr/bin; do
        [[ -x $folder/initdb && -x $folder/postgres ]] && printf '%s\n' "$folder" && return
    done
    return 1
}

# as_nobody COMMAND...: PostgreSQL does not run as root.
_as_nobody() {
    if [[ $(id -u) == 0 ]]; then
        setpriv --reuid=65534 --regid=65534 --clear-groups -- "$@"
    else
        "$@"
    fi
}

# The folder is not in the suite's room, which is closed to that user.
postgres_start() {
    local programs
    PGHOST=$(mktemp -d /tmp/redislock-pg.XXXXXX) PGUSER=tester
    export PGHOST PGUSER
    programs=$(_postgres_programs) || return 0 # the tests say that it is missing
    [[ $(id -u) != 0 ]] || chown 65534:65534 "$PGHOST"
    (cd "$PGHOST" && _as_nobody "$programs/initdb" -D "$PGHOST/data" -U "$PGUSER" -A trust -E UTF8 \
        --locale=C --no-sync >"$PGHOST/log" 2>&1) || fail "initdb: $(tail -n 5 "$PGHOST/log")" || return
    (cd "$PGHOST" && _as_nobody "$REDISLOCK_TOOLS/launch" --group -- "$programs/postgres" -D "$PGHOST/data" \
        -k "$PGHOST" -c listen_addresses= -c fsync=off -c max_connections=20 -c shared_buffers=16MB \
        </dev/null >>"$PGHOST/log" 2>&1 3>&- 4>&- &)
    wait_until 20000 psql -qAtX -d postgres -c 'SELECT 1' || fail "postgres: $(tail -n 5 "$PGHOST/log")"
}

# An orderly end: it takes its shared memory with it.
postgres_stop() {
    local pid
    if [[ -s $PGHOST/data/postmaster.pid ]]; then
        read -r pid <"$PGHOST/data/postmaster.pid"
        process_end "$pid" INT 10000
    fi
    rm -rf "$PGHOST"
}

# An empty database for this test.
postgres_database() {
    [[ -s $PGHOST/data/postmaster.pid ]] || skip_or_fail 'PostgreSQL is not installed' || return
    PGDATABASE=test$BATS_TEST_NUMBER
    export PGDATABASE
    psql -qX -d postgres -c "CREATE DATABASE $PGDATABASE"
}

# Succeeds when a session waits for another's lock; for wait_until.
postgres_waits() {
    [[ $(psql -qAtX -c "SELECT count(*) FROM pg_stat_activity
        WHERE datname = current_database() AND wait_event_type = 'Lock'") == 1 ]]
}

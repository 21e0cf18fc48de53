# Locks as Redis shows them, and jobs that hold one. Loaded after common.bash by the suites about
# the lock itself:  load lib/locks
#
# shellcheck shell=bash

# lock_key NAME [PREFIX], state_key NAME [PREFIX]: of a NAME that needs no encoding.
lock_key() {
    printf '%s%s\n' "${2-lock:}" "$1"
}

state_key() {
    printf '%s{%s}:state\n' "${2-lock:}" "$(lock_key "$@")"
}

# value_field FIELD VALUE: the fence, kind, pid … of a value of ours.
value_field() {
    local names=(magic token fence kind start ttl host boot pid user command) fields=() i
    IFS=: read -r -a fields <<<"$2"
    for i in "${!names[@]}"; do
        [[ ${names[i]} != "$1" ]] || printf '%s\n' "${fields[i]-}"
    done
}

# holder_field FIELD KEY: one field of the value in KEY.
holder_field() {
    value_field "$1" "$(rcli get "$2")"
}

# state_field FIELD NAME
state_field() {
    rcli hget "$(state_key "$2")" "$1"
}

# hold VAR [OPTION]... NAME: starts a job that holds NAME until it is signalled, and waits until its
# command runs. As `spawn`; end it with `let_go VAR`.
hold() {
    local variable=$1 ready=$ROOM/$1.ready
    shift
    rm -f "$ready"
    spawn "$variable" lock "$@" -- "$WITNESS" --out "$ready" --signals inf --exit-on TERM
    if ! wait_for_line "$ready" '^ready ' 2>/dev/null; then
        fail "the job of $variable does not start: $(cat "$ROOM/$variable.err")"
        return 1
    fi
}

# let_go VAR: its command ends (with status 0), and what `reap` sets is set.
let_go() {
    kill -TERM "${!1}"
    reap "$1"
}

# let_go_quiet VAR: as let_go; redislock ends with status 0 as well, and has said nothing on stderr.
let_go_quiet() {
    let_go "$1" && assert_status 0 && assert_no_stderr
}

# The pid of the command that `hold VAR` started.
held_pid() {
    sed -n 's/^ready //p' "$ROOM/$1.ready"
}

# compare_and_delete KEY TOKEN: the release of the common recipe; prints 1 or 0.
compare_and_delete() {
    rcli eval 'if redis.call("get", KEYS[1]) == ARGV[1] then
                   return redis.call("del", KEYS[1])
               end
               return 0' 1 "$1" "$2"
}

# immortal_keys: every key without an expiry, in one session; nothing when all is well.
immortal_keys() {
    rcli --raw eval 'local immortal = {}
        for _, key in ipairs(redis.call("keys", "*")) do
            if redis.call("pttl", key) == -1 then immortal[#immortal + 1] = key end
        end
        return immortal' 0
}

# rises FILE: succeeds when the numbers in FILE, one a line, rise strictly.
rises() {
    awk 'NR > 1 && $1 <= last { print "line " NR ": " $1 " after " last; bad = 1 }
         { last = $1 } END { exit bad || NR == 0 }' "$1" >&2
}

# quickly COMMAND...: as `run --separate-stderr`, a good deal faster: for suites of many runs.
# shellcheck disable=SC2034 # for the test
quickly() {
    status=0
    "$@" >"$ROOM/stdout" 2>"$ROOM/stderr" || status=$?
    mapfile -t lines <"$ROOM/stdout"
    mapfile -t stderr_lines <"$ROOM/stderr"
    IFS= read -r -d '' output <"$ROOM/stdout" || output=${output%$'\n'}
    IFS= read -r -d '' stderr <"$ROOM/stderr" || stderr=${stderr%$'\n'}
}

# --- Lists -------------------------------------------------------------------------------------

# other_keys COUNT: keys of others, so that the walk through all keys takes many steps.
other_keys() {
    rcli eval 'for i = 1, ARGV[1] do redis.call("SET", "session:" .. i, i) end' 0 "$1" >/dev/null
}

# lists_are NUMBER: that many lists have begun in the output of the spawned `watch`; for wait_until.
lists_are() {
    (($(grep -c '^\[' "$ROOM/watch.out") >= $1))
}

# Servers that refuse, talk nonsense or fall silent, many of them tried side by side; and what must
# be true after every trouble. Loaded after common.bash:  load lib/trouble
#
# shellcheck shell=bash

# refuse STATUS REASON ITEM: notes that a run which gets the talker's ITEM for an answer has to end
# with STATUS and give REASON (an extended regular expression).
refuse() {
    REFUSALS+=("$1" "$2" "$3")
}
REFUSALS=()

# refused [OPTION]...: runs all of them at once (under a sanitizer one by one), with these options, and asserts that each ended in
# time with its status and one line that names the server and the reason, and that none ran its
# command. With LOGIN=1 it is the login that is answered so.
refused() {
    local items=() expected=() reason=() number wrong=0 job
    set -- --connect-timeout "$(lease 300)" "$@"
    for ((number = 0; number < ${#REFUSALS[@]} / 3; number++)); do
        expected+=("${REFUSALS[number * 3]}") reason+=("${REFUSALS[number * 3 + 1]}")
        items+=("about $(_refusal_word "$number") ${REFUSALS[number * 3 + 2]}")
    done
    REFUSALS=()
    # shellcheck disable=SC2086 # no word, or one
    talker_start ${LISTENER-} --repeat-last "${items[@]}" 'reply +OK' || return
    for number in "${!items[@]}"; do
        [[ ${LOGIN:-0} == 0 ]] || export REDISCLI_AUTH=secret-$number
        job=refusal_$number
        URL=$TALKER_URL spawn "$job" lock "$@" "job-$number" -- touch "$ROOM/ran-$number"
        ! sanitized || wait_until 10000 process_gone "${!job}"
    done
    unset REDISCLI_AUTH
    for number in "${!items[@]}"; do
        if ! _refused "$number"; then
            printf 'the answer was: %.200s\n\n' "${items[number]#about * }" >&2
            wrong=1
        fi
    done
    return "$wrong"
}

# The word by which the talker knows the runs apart.
_refusal_word() {
    if [[ ${LOGIN:-0} == 0 ]]; then
        printf 'lock:job-%d\n' "$1"
    else
        printf 'secret-%d\n' "$1"
    fi
}

_refused() {
    reap "refusal_$1" 10000 || return
    assert_status "${expected[$1]}" || return
    assert_no_output || return
    assert_one_line "^redislock: job-$1: $TALKER_URL: [^ ;]" || return
    assert_line_stderr "${reason[$1]}" || return
    refute_line_stderr 'secret' || return
    [[ ! -e $ROOM/ran-$1 ]] || fail "the command ran"
}

# The extensions that the events of VAR count.
extension_count() {
    grep -c '"event":"extended"' "$ROOM/$1.events" || true
}

# extensions VAR NUMBER: succeeds when they are so many or more; for wait_until.
extensions() {
    (($(extension_count "$1") >= $2))
}

# hold_through VAR [OPTION]... NAME: as `hold`, through the proxy, with its events in $ROOM/VAR.events.
hold_through() {
    local variable=$1
    shift
    rm -f "$ROOM/$variable.ready"
    : >"$ROOM/$variable.events"
    spawn "$variable" bash -c 'exec 5>>"$0" "$@"' "$ROOM/$variable.events" "$REDISLOCK_BIN" \
        -u "$PROXY_URL" --status-fd 5 "$@" -- "$WITNESS" --out "$ROOM/$variable.ready" \
        --log "$ROOM/$variable.span" --signals inf --exit-on TERM --exit 6
    if ! wait_for_line "$ROOM/$variable.ready" '^ready ' 2>/dev/null; then
        fail "the job of $variable does not start: $(cat "$ROOM/$variable.err")"
    fi
}

# fails_to_extend VAR [WHY]: until redislock VAR, started with -v, has said that an extension failed.
fails_to_extend() {
    wait_for_line "$ROOM/$1.err" "cannot extend the lock: .*${2-}.*; trying again"
}

# called_since COMMAND NUMBER: succeeds once the server has run COMMAND more often than that.
called_since() {
    (($(calls "$1") > $2))
}

# assert_free NAME: nobody has the lock NAME, and no key at all is without an expiry. Tombstones of
# attempts whose outcome was unknown may stand for their two minutes.
assert_free() {
    assert_no_key "lock:$1" || return
    _no_immortal_key || fail "without expiry: $(rcli --raw eval "$_IMMORTAL" 0)"
}

_no_immortal_key() {
    [[ -z $(rcli --raw eval "$_IMMORTAL" 0) ]]
}

_IMMORTAL='local immortal = {}
for _, key in ipairs(redis.call("keys", "*")) do
    if redis.call("pttl", key) == -1 then immortal[#immortal + 1] = key end
end
return immortal'

# Servers that refuse, talk nonsense or fall silent, many of them tried side by side. Loaded after
# common.bash by the suites about a server's errors:  load lib/refusal
#
# shellcheck shell=bash

# refuse STATUS REASON ITEM: notes that a run which gets the talker's ITEM for an answer has to end
# with STATUS and give REASON (an extended regular expression).
refuse() {
    REFUSALS+=("$1" "$2" "$3")
}
REFUSALS=()

# refused [OPTION]...: runs all of them at once, with these options, and asserts that each ended in
# time with its status and one line that names the server and the reason, and that none ran its
# command. With LOGIN=1 it is the login that is answered so.
refused() {
    local items=() expected=() reason=() number wrong=0
    set -- --connect-timeout 0.3 "$@"
    for ((number = 0; number < ${#REFUSALS[@]} / 3; number++)); do
        expected+=("${REFUSALS[number * 3]}") reason+=("${REFUSALS[number * 3 + 1]}")
        items+=("about $(_refusal_word "$number") ${REFUSALS[number * 3 + 2]}")
    done
    REFUSALS=()
    talker_start ${LISTENER-} --repeat-last "${items[@]}" 'reply +OK' || return
    for number in "${!items[@]}"; do
        [[ ${LOGIN:-0} == 0 ]] || export REDISCLI_AUTH=secret-$number
        URL=$TALKER_URL spawn "refusal_$number" lock "$@" "job-$number" -- touch "$ROOM/ran-$number"
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

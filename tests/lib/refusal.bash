# Servers that refuse, talk nonsense or fall silent, many of them tried side by side. Loaded after
# common.bash by the suites about a server's errors:  load lib/refusal
#
# shellcheck shell=bash

# refuse STATUS REASON ITEM...: a talker that answers with ITEM... (the last for ever) and a run that
# meets it. `refused` then asserts that each such run ended in time with STATUS and one line which
# names the server and matches REASON, and that no command ran. Runs that take a time of their own
# are started together and cost that time once. OPTIONS is an array of options for the run.
refuse() {
    local number=${#REFUSALS[@]} expected=$1 reason=$2
    shift 2
    talker_start --repeat-last "$@" || return
    REFUSALS+=("$expected"$'\t'"${TALKER_URL#unix://}"$'\t'"$reason"$'\t'"$*")
    URL=$TALKER_URL spawn "refusal_$number" lock --connect-timeout 0.2 "${OPTIONS[@]}" job -- \
        touch "$ROOM/ran-$number"
}
REFUSALS=() OPTIONS=()

refused() {
    local number expected server reason items wrong=0
    for number in "${!REFUSALS[@]}"; do
        IFS=$'\t' read -r expected server reason items <<<"${REFUSALS[number]}"
        if ! _refused "refusal_$number"; then
            printf 'the answer was: %s\n\n' "$items" >&2
            wrong=1
        fi
    done
    REFUSALS=()
    return "$wrong"
}

_refused() {
    reap "$1" 10000 || return
    assert_status "$expected" || return
    assert_no_output || return
    assert_one_line "^redislock: job: unix://$server: [^ ;].*$reason" || return
    [[ ! -e $ROOM/ran-$number ]] || fail "the command ran"
}

# Assertions. Each says on failure what was there instead. Part of common.bash.
#
# They look at what `run --separate-stderr` or `reap` left: $status, $output, $stderr. Patterns are
# extended regular expressions, matched anywhere unless anchored.

# Prints what the last command did.
_show_run() {
    printf 'status: %s\nstdout: %s\nstderr: %s\n' "${status-}" "${output-}" "${stderr-}" >&2
}

assert_status() {
    if [[ ${status-} != "$1" ]]; then
        _show_run
        fail "expected status $1"
    fi
}

# assert_equal ACTUAL EXPECTED
assert_equal() {
    if [[ $1 != "$2" ]]; then
        fail "expected \"$2\", got \"$1\""
    fi
}

assert_output() {
    if [[ ${output-} != "$1" ]]; then
        _show_run
        fail "expected exactly this on stdout: $1"
    fi
}

assert_no_output() {
    assert_output ''
}

assert_line_output() {
    if ! grep -qE -- "$1" <<<"${output-}"; then
        _show_run
        fail "no line of stdout matches: $1"
    fi
}

assert_line_stderr() {
    if ! grep -qE -- "$1" <<<"${stderr-}"; then
        _show_run
        fail "no line of stderr matches: $1"
    fi
}

refute_line_stderr() {
    if grep -qE -- "$1" <<<"${stderr-}"; then
        _show_run
        fail "a line of stderr matches: $1"
    fi
}

assert_no_stderr() {
    if [[ -n ${stderr-} ]]; then
        _show_run
        fail "expected nothing on stderr"
    fi
}

# reap_quiet VAR [MS]: as reap; it ends with status 0, and has said nothing on stderr.
reap_quiet() {
    reap "$@" && assert_status 0 && assert_no_stderr
}

# assert_one_line [REGEX]: stderr is exactly one line, redislock's, and matches REGEX.
assert_one_line() {
    if [[ -z ${stderr-} || $stderr == *$'\n'* || $stderr != redislock:* ]]; then
        _show_run
        fail "expected one line of redislock's on stderr"
        return 1
    fi
    [[ $# -eq 0 ]] || assert_line_stderr "$1"
}

# assert_between ACTUAL LOW HIGH: whole numbers, both ends included.
assert_between() {
    if ! [[ $1 =~ ^-?[0-9]+$ ]] || (($1 < $2 || $1 > $3)); then
        fail "expected $2 to $3, got $1"
    fi
}

assert_no_process() {
    if ! process_gone "$1"; then
        fail "process $1 lives: $(tr '\0' ' ' <"/proc/$1/cmdline")"
    fi
}

assert_process() {
    if process_gone "$1"; then
        fail "process $1 is gone"
    fi
}

assert_key() {
    key_exists "$1" || fail "there is no key $1; there are: $(rcli keys '*')"
}

assert_no_key() {
    key_absent "$1" || fail "key $1 exists: $(rcli get "$1") (pttl $(rcli pttl "$1"))"
}

# Nothing but state hashes (`…:state`, the fence and the run record) is left in the server, and
# nothing is left without an expiry.
assert_no_keys_left() {
    local key left=() immortal=()
    while IFS= read -r key; do
        [[ -n $key ]] || continue
        [[ $key == *:state ]] || left+=("$key")
        [[ $(rcli pttl "$key") != -1 ]] || immortal+=("$key")
    done < <(rcli keys '*')
    if ((${#left[@]} + ${#immortal[@]} > 0)); then
        fail "keys left: ${left[*]}; without expiry: ${immortal[*]}"
    fi
}

# System calls that fail on order: which ones a run makes is seen by strace, and then each of them fails
# in a run of its own. Loaded after common.bash:  load lib/inject
#
# A scenario is a function that runs redislock once, in the folder $CASE and under the name $NAME,
# with "${STRACE[@]}" in front of it (or, for a process that runs already, attached by `strace_to`).
# It sets status, and leaves stderr in $CASE/err and the witness's log in $CASE/log.
#
# shellcheck shell=bash

# Which error a call fails with, and why it may pass without a word; `-`: it may not. The errors are
# such as a busy machine gives. A scenario's own line (SCENARIO:CALL) goes first.
_FAILURES='
socket           EMFILE       -
signalfd4        EMFILE       -
timerfd_create   EMFILE       -
eventfd2         EMFILE       -
pipe2            EMFILE       -
vfork            EAGAIN       -
clone            EAGAIN       -
clone3           EAGAIN       -
mmap             ENOMEM       an allocator has another way
mprotect         ENOMEM       an allocator has another way
brk              ENOMEM       malloc goes on with mmap
access           EACCES       the file is opened all the same, and that decides
openat           EMFILE       what is for people to read (boot id, script name) may be missing
newfstatat       EIO          it only asks whether stdin is a terminal, or stdout a file
ioctl            EIO          it only asks whether stdin is a terminal
fcntl            EINVAL       a descriptor that stays open is closed by exec
dup              EMFILE       -
connect          ECONNREFUSED it is tried again
sendto           ECONNRESET   it is tried again
recvfrom         ECONNRESET   it is tried again
poll             ENOMEM       it is asked again
read             EIO          a signal or a number that was not read is still there
pread64          EIO          a signal or a number that was not read is still there
wait4            EINTR        it is asked again
getdents64       EIO          descriptors of the caller stay open
setsockopt       ENOBUFS      keep-alive is only one of two ways to notice a dead server
getrandom        EINTR        it is asked again
close_range      ENOSYS       they are closed one by one
chdir            EACCES       it only lets go of a folder
pidfd_open       EMFILE       -
pidfd_send_signal EPERM       -
munmap           ENOMEM       the memory goes with the process
madvise          ENOMEM       the memory goes with the process
write            EIO          there is no other way to say so
waiting_run:signalfd4 EMFILE  the second only keeps ignored signals from waking it
long_run:write   sure         the keeper is stopped through an eventfd, which has room for it
attached:write   sure         the same
attaching:write  sure         the same
'

# Calls that do not fail when they are used right, so that nobody can do anything about it: they change
# or tell what is the own process, or their arguments are known to be good. close may say what it likes:
# Linux has closed the descriptor, which strace in its place would leave open.
_SURE=' close getpid getppid gettid getpgrp getpgid getsid geteuid getuid getegid getgid uname sysinfo
rt_sigprocmask rt_sigaction rt_sigpending rt_sigtimedwait rt_sigreturn sched_getaffinity
set_robust_list set_tid_address rseq arch_prctl prctl prlimit64 getrlimit futex exit exit_group
timerfd_settime restart_syscall setpgid setsid dup2 kill tgkill execve lseek clock_nanosleep
clock_gettime membarrier '

# strace_to PID: attaches, and returns once every call is seen.
strace_to() {
    "${STRACE[@]}" -p "$1" 2>"$CASE/strace" 3>&- &
    TRACER=$!
    wait_until 5000 grep -q attached "$CASE/strace"
}

# end_of PID: its exit status, in time or `hangs`.
end_of() {
    status=hangs
    if wait_until 30000 process_gone "$1" 2>/dev/null; then
        status=0
        wait "$1" || status=$?
    else
        kill -KILL "$1"
    fi
    kill "$TRACER" 2>/dev/null || true
    wait "$TRACER" || true
}

# calls_of TRACE [MARK]: `CALL N` for each call that some process of TRACE made; N counts from 1 in each,
# as strace's when= does. What comes before the line with MARK (the loader, which is not ours) is counted
# and left out.
calls_of() {
    awk -v mark="${2-}" '
        BEGIN { ours = mark == "" }
        !ours && index($0, mark) { ours = 1 }
        $2 !~ /^[a-z0-9_]+\(/ { next }
        {
            call = $2
            sub(/\(.*/, "", call)
            number = ++count[$1, call]
            if (!ours) before[call] = number
            else if (number > before[call] && !seen[call, number]++) print call, number
        }' "$1"
}

# failure_of SCENARIO CALL: sets ERROR and SILENCE; fails for a call that is sure, and for an unknown one
# ends the test.
failure_of() {
    local call=$2 line
    [[ $_SURE != *[[:space:]]"$call"[[:space:]]* ]] || return 1
    line=$(awk -v own="$1:$call" -v call="$call" '
        $1 == own { print; found = 1; exit }
        $1 == call { kept = $0 }
        END { if (!found && kept) print kept }' <<<"$_FAILURES")
    if [[ -z $line ]]; then
        ERROR=unknown
        return 0
    fi
    read -r _ ERROR SILENCE <<<"$line"
    [[ $ERROR != sure ]]
}

# Everything of this case, by its mark in the environment.
case_processes() {
    local file
    while IFS= read -r file; do
        printf '%s\n' "${file//[!0-9]/}"
    done < <(grep -lzxF "INJECT_CASE=$CASE" /proc/[0-9]*/environ 2>/dev/null)
}

no_case_processes() {
    local pid
    for pid in $(case_processes); do
        process_gone "$pid" || return 1
    done
}

# What must hold, whatever has failed. Prints what does not.
_judge() {
    local own=$1 allowed=$2 silence=$3 starts ttl lines
    if ! wait_until 3000 no_case_processes 2>/dev/null; then
        echo "left running: $(for pid in $(case_processes); do tr '\0' ' ' <"/proc/$pid/cmdline"; done)"
    fi
    [[ " $own $allowed " == *" $status "* ]] || echo "status $status"
    ttl=$(rcli pttl "lock:$NAME")
    ((ttl == -2 || (ttl > 0 && ttl <= ${CASE_TTL:-3000}))) || echo "the key has $ttl ms left"
    starts=$(grep -c '^start ' "$CASE/log" 2>/dev/null || true)
    ((${starts:-0} <= 1)) || echo "the command ran $starts times"
    [[ $status != "$own" || -z ${CASE_RUNS-} || $starts == 1 ]] || echo "the command did not run"
    if grep -qv '^redislock: [[:print:]]*$' "$CASE/err"; then
        echo "strange words"
    fi
    lines=$(wc -l <"$CASE/err")
    ((lines <= 2)) || echo "too many words"
    [[ $status == "$own" || $lines -gt 0 || $silence == 'there is no'* ]] || echo "no word about it"
    [[ $status != "$own" || $lines -gt 0 || $silence != - ]] || echo "success without a word"
}

# inject SCENARIO OWN ALLOWED [MARK]: lets the scenario run as it is, which must end with OWN, and then
# once for each call that it made, with that call failing: it must end with OWN or a status of ALLOWED.
# A sample of the calls, unless INJECT=all: the first of each kind, and of the others every fifth.
inject() {
    local scenario=$1 own=$2 allowed=$3 mark=${4-} call number cases=() tried=0 hits=0 wrong=0
    STRACE=(strace -f -b execve)
    [[ -z $mark ]] || STRACE=(timeout -s KILL 20 "${STRACE[@]}" -qq)
    _case "$scenario" plain 0 "$own" "" 'as it is' -o "$ROOM/$scenario.trace"
    if [[ -s $ROOM/$scenario.plain/wrong ]]; then
        fail "$scenario, without a failure: $(cat "$ROOM/$scenario.plain/"{wrong,err})"
        return 1
    fi
    while read -r call number; do
        failure_of "$scenario" "$call" || continue
        [[ $ERROR != unknown ]] || { fail "$scenario: a new call, $call: say in lib/inject how it fails"; return 1; }
        tried=$((tried + 1))
        if [[ ${INJECT-} != all ]] && ((number > ${first[$call]:=$number} && tried % 5 != 0)); then
            continue
        fi
        cases+=("$scenario.$call.$number")
        _case "$scenario" "$call" "$number" "$own" "$allowed" "$SILENCE" -o "$ROOM/$scenario.$call.$number.trace" \
            -e "inject=$call:error=$ERROR:when=$number" 3>&- &
        while (($(jobs -rp | wc -l) >= ${INJECT_JOBS:-8})); do
            wait -n || true
        done
    done < <(calls_of "$ROOM/$scenario.trace" "$mark")
    wait
    for call in "${cases[@]}"; do
        # a process that was attached to late may have made the call before
        grep -q INJECTED "$ROOM/$call.trace" || continue
        hits=$((hits + 1))
        [[ -f $ROOM/$call/wrong && ! -s $ROOM/$call/wrong ]] && continue
        wrong=1
        printf '%s: %s\n%s\n' "$call" "$(cat "$ROOM/$call/wrong")" "$(cat "$ROOM/$call/err")" >&2
    done
    printf '# %s: %d of %d calls failed in a run of their own\n' "$scenario" "$hits" "$tried" >&3
    ((hits > 0 && hits >= ${#cases[@]} * 3 / 4)) ||
        { fail "$scenario: of ${#cases[@]} calls only $hits were seen to fail" && return 1; }
    return "$wrong"
}
declare -A first=()

_case() { # SCENARIO CALL NUMBER OWN ALLOWED SILENCE STRACE-OPTION...
    local scenario=$1 own=$4 allowed=$5 silence=$6
    CASE=$ROOM/$1.$2.$3 NAME=$1-$2-$3
    [[ $2 != plain ]] || CASE=$ROOM/$1.plain
    shift 6
    STRACE+=("$@")
    mkdir -p "$CASE"
    : >"$CASE/err"
    export INJECT_CASE=$CASE
    status=none
    "$scenario" || true
    _judge "$own" "$allowed" "$silence" >"$CASE/wrong"
    if [[ -s $CASE/wrong ]]; then
        for pid in $(case_processes); do
            kill -KILL "$pid" 2>/dev/null || true
        done
    fi
    unset INJECT_CASE
    STRACE=("${STRACE[@]:0:${#STRACE[@]}-$#}")
}

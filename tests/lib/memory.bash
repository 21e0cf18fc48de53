# A control group that may have little memory, in which the kernel's OOM killer has to choose. Loaded
# after common.bash:  load lib/memory
#
# shellcheck shell=bash

# memory_start KB: sets MEMORY to the folder of a new group that may have KB of memory, and no swap.
# Skips the test where none can be made. memory_end, when its processes have ended, removes it.
memory_start() {
    local mount limit
    # that of cgroup v1, or of v2 where the controller is there
    while read -r mount; do
        MEMORY=$mount/redislock-$BASHPID
        mkdir "$MEMORY" 2>/dev/null || { MEMORY= && continue; }
        for limit in limit_in_bytes memsw.limit_in_bytes max; do
            [[ ! -e $MEMORY/memory.$limit ]] || printf '%dK' "$1" >"$MEMORY/memory.$limit"
        done
        [[ ! -e $MEMORY/memory.swap.max ]] || printf 0 >"$MEMORY/memory.swap.max"
        [[ ! -e $MEMORY/memory.oom_control && ! -e $MEMORY/memory.max ]] || return 0
        memory_end
    done < <(awk '$3 == "cgroup" && $4 ~ /(^|,)memory(,|$)/ || $3 == "cgroup2" { print $2 }' /proc/self/mounts)
    skip 'optional: no memory control group can be made here'
}

memory_end() {
    [[ -z ${MEMORY-} ]] || wait_until 5000 rmdir "$MEMORY"
    MEMORY=
}

# How many the kernel has killed in the group so far.
memory_kills() {
    cat "$MEMORY"/memory.{oom_control,events} 2>/dev/null | sed -n 's/^oom_kill //p'
}

# memory_kill PID: eight others fill the group of 16 MB, and of all in it the kernel takes PID first.
memory_kill() {
    local i
    printf 1000 >"/proc/$1/oom_score_adj"
    printf '%d' "$1" >"$MEMORY/cgroup.procs"
    assert_equal "$(memory_kills)" 0
    for i in {1..8}; do
        # 3 MB each, for a reader that reads nothing
        # shellcheck disable=SC2016 # for the shell
        spawn "hog_$i" sh -c 'echo "$$" >"$0/cgroup.procs"; dd if=/dev/zero bs=3M count=1 | sleep 60' "$MEMORY"
    done
    wait_until 10000 process_gone "$1"
    (($(memory_kills) > 0)) || fail 'it was not the kernel'
}

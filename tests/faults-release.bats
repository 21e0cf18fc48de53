#!/usr/bin/env bats
# Trouble when the command has ended: the release is tried in a time of its own, never touches what
# is not ours, says what became of the lock, and the command's status stays what it is.
# shellcheck disable=SC2030,SC2031 # each test is a process of its own
# shellcheck disable=SC2154,SC2153 # spawn, hold and the helpers assign

load lib/common
load lib/locks
load lib/job
load lib/trouble

setup() {
    common_setup
    redis_start
}

# start VAR [OPTION]... NAME: a job that holds NAME until `finish VAR` lets it end with status 7.
start() {
    local variable=$1
    shift
    spawn "$variable" lock "$@" -- sh -c \
        'echo started; until [ -e "$0" ]; do sleep 0.02; done; exit 7' "$ROOM/$variable.go"
    wait_for_line "$ROOM/$variable.out" started
}

finish() {
    touch "$ROOM/$1.go"
    reap "$1"
    assert_status 7
    assert_output started
}

@test "row 19: a release never deletes a successor's lock" {
    start job job
    rcli del lock:job
    hold other job
    local value
    value=$(rcli get lock:job)
    finish job
    assert_one_line "the lock was lost while the command ran: it is now held by .* \(pid $other, "
    assert_equal "$(rcli get lock:job)" "$value"
    assert_between "$(key_pttl lock:job)" 50000 60000
    let_go_quiet other
    assert_free job
}

@test "row 19: nor one of another program, whatever its value looks like" {
    local theirs # the last one is like ours, but not ours
    for theirs in foreign '' 1 "redislock1:" 'a b'; do
        start job job
        [[ $theirs != redislock1: ]] || theirs=$(rcli get lock:job)x
        rcli set lock:job "$theirs" px 60000
        finish job
        assert_one_line 'the lock was lost while the command ran: it is now held by'
        assert_equal "$(rcli get lock:job)" "$theirs"
        rm "$ROOM/job.go"
        rcli del lock:job
    done
}

@test "row 19: nor a key that has become something else" {
    start job job
    rcli del lock:job
    rcli rpush lock:job a b
    finish job
    assert_one_line "cannot release the lock: unix://$SOCK: WRONGTYPE "
    assert_equal "$(rcli lrange lock:job 0 -1)" $'a\nb'
}

@test "row 19: nor with a minimum hold: no residue over a successor's lock" {
    start job --min-hold 30 job
    rcli set lock:job theirs px 60000
    finish job
    assert_line_stderr 'the lock was lost'
    assert_equal "$(rcli get lock:job)" theirs
    start job2 --min-hold 30 job2
    rcli del lock:job2
    finish job2
    assert_line_stderr 'the lock was lost'
    assert_no_key lock:job2
}

@test "row 20: vanished, taken and unknown are told apart, and none is \"already taken\"" {
    start vanished vanished
    rcli del lock:vanished
    finish vanished
    assert_one_line ': vanished: the lock was lost while the command ran: its key had vanished at the end$'

    start taken taken
    rcli set lock:taken theirs px 60000
    finish taken
    assert_one_line ': taken: the lock was lost while the command ran: it is now held by another'

    start unknown -t 1.5 unknown
    redis_stop
    finish unknown
    assert_line_stderr ": unknown: cannot release the lock: unix://$SOCK: [^;]+; it expires by itself$"
}

@test "row 57: the server is killed, then the command ends: its status, and a bound on the time" {
    start job -t 1.5 job
    redis_kill9
    local before
    before=$(boottime_ms)
    finish job
    assert_between $(($(boottime_ms) - before)) 0 5000
    assert_line_stderr 'cannot release the lock'
}

@test "row 57: the server falls silent, then the command ends: its status, and a bound on the time" {
    start job -t 1.5 job
    redis_freeze
    local before
    before=$(boottime_ms)
    finish job
    assert_between $(($(boottime_ms) - before)) 0 5000
    assert_line_stderr 'cannot release the lock: .*no answer in time'
    redis_thaw
    wait_until 5000 key_absent lock:job
}

@test "a release is never tried past the time at which the key may be somebody else's" {
    proxy_start
    URL=$PROXY_URL start job -t 1.5 job
    proxy_do hold
    touch "$ROOM/job.go"
    reap job
    assert_status 7
    wait_until 5000 key_absent lock:job
    hold other job
    proxy_do pass # what was sent in time arrives late, and finds another's value
    assert_process "$(held_pid other)"
    let_go_quiet other
}

@test "the server comes back in time: the lock is released, silently" {
    start job job
    redis_freeze
    touch "$ROOM/job.go"
    wait_until 5000 child_has_ended
    redis_thaw
    reap job
    assert_status 7
    assert_no_stderr
    assert_free job
}

# Succeeds when the command of job has ended: redislock is releasing.
child_has_ended() {
    ! child_of "$job"
}

@test "an answer to the release that gets lost is no loss of the lock" {
    proxy_start
    lock job -- true # the server knows the scripts
    URL=$PROXY_URL start job job
    proxy_do drop s2c
    touch "$ROOM/job.go"
    wait_until 5000 key_absent lock:job # applied, and redislock does not know
    proxy_do pass
    reap job 15000
    assert_status 7
    assert_no_stderr
    assert_free job
    assert_equal "$(state_field runs job)" 2
    assert_equal "$(state_field losses job)" ''
}

@test "the answer to the release is lost and somebody else has the lock since: no loss, theirs stays" {
    proxy_start
    lock job -- true # the server knows the scripts
    URL=$PROXY_URL start job job
    proxy_do drop s2c
    touch "$ROOM/job.go"
    wait_until 5000 key_absent lock:job
    hold other job
    proxy_do pass
    reap job 15000
    assert_status 7
    assert_no_stderr
    assert_key lock:job
    let_go_quiet other
}

@test "row 17: a command that ends while an extension is on its way: joined, released, not renewed" {
    proxy_start
    URL=$PROXY_URL start job -t 3 job
    proxy_do delay 100 c2s
    local before
    before=$(proxy_stat c2s)
    wait_until 5000 proxy_saw c2s $((before + 1)) # the extension has been sent
    finish job
    assert_no_stderr
    assert_no_key lock:job
    proxy_do pass
    assert_free job
}

@test "row 17: the same with an extension whose answer never comes" {
    proxy_start
    URL=$PROXY_URL start job -t "$(lease 3000)" job
    proxy_do drop s2c
    local before
    before=$(calls evalsha)
    wait_until 5000 called_since evalsha "$before" # the extension has arrived
    touch "$ROOM/job.go"
    wait_until 5000 child_has_ended
    proxy_do pass
    reap job
    assert_status 7
    refute_line_stderr 'release|lost'
    assert_free job
}

@test "row 22: a signal stops the command, and the lock is gone soon, long before its expiry" {
    local signal
    for signal in TERM INT HUP; do
        spawn job lock job -- "$WITNESS" --out "$ROOM/$signal" --report --sleep inf
        wait_for_line "$ROOM/$signal" '^pid '
        kill -"$signal" "$job"
        wait_until 2000 key_absent lock:job
        reap job
        assert_status $((128 + $(kill -l "$signal")))
        assert_no_stderr
    done
    assert_free job
}

@test "row 22: SIGTERM with a slow server: the release has a time of its own" {
    proxy_start
    URL=$PROXY_URL hold job job
    proxy_do delay 300
    kill -TERM "$job"
    reap_quiet job
    assert_free job
}

@test "row 26: the scripts are forgotten before the release, also before one after a lost answer" {
    proxy_start
    URL=$PROXY_URL start job job
    rcli script flush
    finish job
    assert_no_stderr
    rm "$ROOM/job.go"
    URL=$PROXY_URL start job job
    proxy_do cut
    rcli script flush
    finish job
    assert_no_stderr
    assert_free job
    assert_equal "$(state_field runs job)" 2
}

@test "a release cut off before it is sent, and again and again, gets through in the end" {
    proxy_start
    URL=$PROXY_URL start job job
    proxy_do refuse
    proxy_do cut
    touch "$ROOM/job.go"
    wait_until 5000 child_has_ended
    proxy_do accept
    reap job
    assert_status 7
    assert_no_stderr
    assert_free job
}

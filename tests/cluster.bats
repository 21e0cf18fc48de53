#!/usr/bin/env bats
# A cluster: one lock lives in one slot, and is found wherever that slot is, while it moves, and when
# its master dies.

load lib/common
load lib/locks
load lib/servers

# The cluster of this file; a test that harms it starts its own.
setup_file() {
    common_setup_file
    cluster_start 0
}

# any_url [NODE]: a plain URL of a node.
any_url() {
    printf 'redis://127.0.0.1:%s\n' "$(redis_port "${1:-n1}")"
}

# cluster_url NODE...: redis+cluster:// with these nodes.
cluster_url() {
    local url=redis+cluster:// name
    for name in "$@"; do
        url+=127.0.0.1:$(redis_port "$name"),
    done
    printf '%s\n' "${url%,}"
}

# name_on NODE: a lock's name whose slot NODE serves.
name_on() {
    local number=0
    until [[ $(owner_of "lock:job-$number") == "$1" ]]; do
        number=$((number + 1))
    done
    printf 'job-%s\n' "$number"
}

# No key is left on any of them.
empty_nodes() {
    local node
    for node in n1 n2 n3; do
        rcli_at "$node" flushall >/dev/null
    done
}

# moving NAME: sets FROM, TO and SLOT, and puts the slot of lock NAME between the two.
moving() {
    FROM=$(owner_of "lock:$1")
    TO=$(another_master "$FROM")
    SLOT=$(slot_of "lock:$1")
    rcli_at "$TO" cluster setslot "$SLOT" importing "$(node_id "$FROM")" >/dev/null
    rcli_at "$FROM" cluster setslot "$SLOT" migrating "$(node_id "$TO")" >/dev/null
}

# move_key KEY: that key alone goes over.
move_key() {
    assert_equal "$(rcli_at "$FROM" migrate 127.0.0.1 "$(redis_port "$TO")" "$1" 0 5000)" OK
}

# moved: the whole slot is over, and all nodes know.
moved() {
    local key node
    while IFS= read -r key; do
        [[ -z $key ]] || move_key "$key"
    done < <(rcli_at "$FROM" cluster getkeysinslot "$SLOT" 100)
    for node in "$TO" "$FROM" n1 n2 n3; do
        rcli_at "$node" cluster setslot "$SLOT" node "$(node_id "$TO")" >/dev/null
    done
}

@test "a plain URL of any node finds the one that has the lock" {
    local node name
    for name in n1 n2 n3; do
        node=$(name_on "$name")
        URL=$(any_url n1) run --separate-stderr lock "$node" -c "redis-cli -s $(redis_sock "$name") exists lock:$node"
        assert_status 0
        assert_output 1
        assert_no_stderr
        free_on "$name" "lock:$node"
    done
    URL=unix://$(redis_sock n1) run --separate-stderr lock "$(name_on n3)" -- echo socket
    assert_output socket
}

@test "redis+cluster:// finds it by any of its nodes; one that is down is passed over" {
    local port
    free_port port
    URL=redis+cluster://127.0.0.1:$port,127.0.0.1:$(redis_port n2) run --separate-stderr lock \
        "$(name_on n3)" -- echo found
    assert_status 0
    assert_output found
    assert_no_stderr
}

@test "a database other than 0 is refused, in the address or by the cluster" {
    URL=$(cluster_url n1)/1 run --separate-stderr lock job -- true
    assert_status 64
    assert_one_line 'database other than 0'
    URL=$(any_url n1)/1 run --separate-stderr lock job -- touch "$ROOM/ran"
    assert_status 64
    assert_one_line 'SELECT is not allowed|database'
    REDISLOCK_URL=$(any_url n1)/1 run --separate-stderr "$REDISLOCK_BIN" job -- true
    assert_status 78
    [[ ! -e $ROOM/ran ]]
}

@test "row 35: odd names keep all their keys in one slot" {
    local name
    URL=$(any_url n2)
    export URL
    for name in a '{a}b' '}{' 'a}b' '{}' '{' '}' '{}{a}' 'a{b}{c}' '%7B' ' ' $'\n' '{a' 'ä'; do
        run --separate-stderr lock "$name" -c 'printf "%s" "$REDISLOCK_NAME"'
        assert_status 0
        assert_equal "$output" "$(printf '%s' "$name")"
        assert_no_stderr
        run --separate-stderr lock -w 1 "$name" -- "$REDISLOCK_BIN" -u "$URL" -w 0.3 "$name" -- true
        assert_status 75
    done
    run --separate-stderr lock '' -- true
    assert_status 64
}

@test "shared locks, slots, tokens, waiting and the operators' commands work in a cluster" {
    local token name
    name=$(name_on n3)
    REDISLOCK_URL=$(cluster_url n1 n2)
    export REDISLOCK_URL
    run --separate-stderr "$REDISLOCK_BIN" -s "$name" -- "$REDISLOCK_BIN" -s "$name" -- echo shared
    assert_output shared
    run --separate-stderr "$REDISLOCK_BIN" -S 2 "$name" -- "$REDISLOCK_BIN" -S 2 "$name" -- echo slots
    assert_output slots
    token=$("$REDISLOCK_BIN" --acquire "$name")
    "$REDISLOCK_BIN" --check "$name" "$token"
    "$REDISLOCK_BIN" --extend "$name" "$token"
    run --separate-stderr "$REDISLOCK_BIN" --status "$name"
    assert_status 75
    run --separate-stderr "$REDISLOCK_BIN" --unlock --force "$name"
    assert_status 0
    run --separate-stderr "$REDISLOCK_BIN" --status "$name"
    assert_status 0
    run --separate-stderr "$REDISLOCK_BIN" --doctor
    assert_status 0
}

# on_each_node: sets ONE, TWO and THREE to names with a record, one on each node.
on_each_node() {
    ONE=$(name_on n1) TWO=$(name_on n2) THREE=$(name_on n3)
    lock "$ONE" -- true
    lock "$TWO" -- true
    lock "$THREE" -- true
}

# rows NAME...: each is in a row of $output, once; nothing else is.
rows() {
    assert_equal "$(sed '1d; s/ .*//' <<<"$output")" "$(printf '%s\n' "$@" | LC_ALL=C sort)"
}

# json_names: the names in the array of $output, in its order.
json_names() {
    jq -r 'map(.name) | join(" ")' <<<"$output"
}

all_rows_seen() {
    grep -q "^$ONE " "$1" && grep -q "^$TWO " "$1" && grep -q "^$THREE " "$1"
}

@test "--list shows the locks of all masters, each once, whichever node is asked" {
    local url URL
    URL=$(any_url n1)
    empty_nodes
    on_each_node
    for url in "$(any_url n1)" "$(any_url n3)" "unix://$(redis_sock n2)" "$(cluster_url n2)" \
        "redis+cluster://127.0.0.1:1,127.0.0.1:$(redis_port n1)"; do
        URL=$url run --separate-stderr lock --list
        assert_status 0
        assert_no_stderr
        rows "$ONE" "$TWO" "$THREE"
    done
    run --separate-stderr lock --list "$THREE"
    rows "$THREE"
    run --separate-stderr lock --list --json
    assert_status 0
    assert_equal "$(json_names)" "$(printf '%s\n' "$ONE" "$TWO" "$THREE" | LC_ALL=C sort | xargs)"
    spawn watch lock --list --watch=50ms
    wait_until 10000 all_rows_seen "$ROOM/watch.out"
    process_end "$watch"
    run on_pty "$REDISLOCK_BIN" -u "$URL" --list --watch=100ms <<STEPS
expect 3 locks under
expect $ONE
expect $TWO
expect $THREE
send q
wait 0
STEPS
    assert_status 0
}

# remember_there FROM TO: what is remembered of the locks job-FROM to job-TO, each as many runs as its number.
remember_there() {
    local number
    for ((number = $1; number <= $2; number++)); do
        printf 'HSET lock:{lock:job-%d}:state runs %d\n' "$number" "$number"
    done | redis-cli -c -p "$(redis_port n1)" >/dev/null
}

# scripts_run: by all masters.
scripts_run() {
    local node
    for node in n1 n2 n3; do
        rcli_at "$node" info commandstats
    done | awk -F '[=,]' '/^cmdstat_eval/ { sum += $2 } END { print sum + 0 }'
}

@test "--list of many locks all over the slots: each node is asked for its own, and one that moves is found" {
    local URL name node key wanted
    URL=$(any_url n1)
    empty_nodes
    remember_there 1 600
    wanted=$(seq 600 | sed 's/.*/job-& &/' | LC_ALL=C sort)
    lock --list >/dev/null # now the script is known everywhere
    for node in n1 n2 n3; do
        rcli_at "$node" config resetstat >/dev/null
    done
    run --separate-stderr lock --list --json
    assert_status 0
    assert_equal "$(jq -r '.[] | "\(.name) \(.runs)"' <<<"$output")" "$wanted"
    assert_equal "$(scripts_run)" 600
    rcli_at n2 script flush >/dev/null
    run --separate-stderr lock --list --json
    assert_equal "$(jq -r '.[] | "\(.name) \(.runs)"' <<<"$output")" "$wanted"
    name=$(name_on n2)
    rcli_at n2 set "lock:$name" foreign >/dev/null
    rcli_at n2 zadd "lock:{lock:$name}:queue" 1 x >/dev/null
    rcli_at n2 zadd "lock:{lock:$name}:holders" 1 x >/dev/null
    moving "$name"
    for key in "lock:$name" "lock:{lock:$name}:"{state,queue,holders}; do
        move_key "$key" # to where its slot is not yet: MOVED there, and back by ASK
    done
    for node in n1 n2 n3; do
        rcli_at "$node" config resetstat >/dev/null
    done
    run --separate-stderr lock --list --json
    assert_status 0
    assert_no_stderr
    assert_equal "$(jq -r '.[] | "\(.name) \(.runs)"' <<<"$output")" "$wanted"
    assert_between "$(scripts_run)" 601 $((600 + 64 + 10))
    moved
    run --separate-stderr lock --list --json
    assert_equal "$(jq -r '.[] | "\(.name) \(.runs)"' <<<"$output")" "$wanted"
    run --separate-stderr lock --status --json job-{1..20}
    assert_status 75 # the one with a foreign value
    assert_equal "$(jq -c 'map(.runs) == [range(1; 21)]' <<<"$output")" true
    empty_nodes
}

@test "--list: nodes that do not answer are told after what the others have, with 69" {
    local URL dead before
    FILE_ROOM=
    NODE_TIMEOUT=60000 cluster_start 0 # longer than this test: the others do not give up on it
    URL=$(any_url n1)
    on_each_node
    export REDISLOCK_CONNECT_TIMEOUT=700ms
    dead="the list is not whole: redis://127.0.0.1:$(redis_port n3): "
    redis_freeze n3
    run --separate-stderr lock --list
    redis_thaw n3
    assert_status 69
    rows "$ONE" "$TWO"
    assert_one_line "${dead}no answer in time"
    redis_kill9 n3
    run --separate-stderr lock --list
    assert_status 69
    rows "$ONE" "$TWO"
    assert_one_line "${dead}Connection refused"
    run --separate-stderr lock --list --json
    assert_status 69
    assert_equal "$(json_names)" "$(printf '%s\n' "$ONE" "$TWO" | LC_ALL=C sort | xargs)"
    assert_one_line "$dead"
    run on_pty "$REDISLOCK_BIN" -u "$URL" --list --watch=100ms <<STEPS
expect 2 locks under
expect $TWO
expect Connection refused
send q
wait 0
STEPS
    assert_status 0
    redis_kill9 n2
    before=$(boottime_ms)
    run --separate-stderr lock --connect-timeout 3s --list
    assert_between $(($(boottime_ms) - before)) 2990 5900 # once for both
    assert_status 69
    rows "$ONE"
    assert_one_line "127.0.0.1:$(redis_port n2): .*127.0.0.1:$(redis_port n3): "
}

# two_in_a_slot NODE: sets ONE and TWO to names of one slot, which NODE serves.
two_in_a_slot() {
    local number name other
    local -A slots=()
    while read -r number name; do
        other=${slots[$number]-}
        if [[ -n $other && $(owner_of "lock:$name") == "$1" ]]; then
            ONE=$other TWO=$name
            return
        fi
        slots[$number]=$name
    done < <(paste <(printf 'cluster keyslot lock:half-%d\n' {1..2000} | redis-cli -p "$(redis_port n1)") \
        <(printf 'half-%d\n' {1..2000}))
    return 1
}

# refused_by NODE CODE: it has given that error since `config resetstat`; for wait_until.
refused_by() {
    rcli_at "$1" info errorstats | grep -q "^errorstat_$2:"
}

@test "--list: a lock half of whose keys have moved is asked for until --connect-timeout, then told; the others are shown" {
    local URL ONE TWO others node name before
    URL=$(any_url n1)
    empty_nodes
    remember_there 1 60
    others=$(printf 'job-%d\n' {1..60})
    two_in_a_slot n2
    for name in "$ONE" "$TWO"; do
        rcli_at n2 hset "lock:{lock:$name}:state" runs 1 >/dev/null
        rcli_at n2 set "lock:$name" foreign >/dev/null
    done
    moving "$ONE"
    move_key "lock:$ONE"
    move_key "lock:$TWO"
    before=$(boottime_ms)
    run --separate-stderr lock --connect-timeout 3s --list
    assert_between $(($(boottime_ms) - before)) 2990 5900 # once for both
    assert_status 69
    # shellcheck disable=SC2086 # words on purpose
    rows $others
    assert_one_line "the list is not whole: $ONE: redis://.*TRYAGAIN.*; and 1 more lock; no working Redis"
    run --separate-stderr lock --connect-timeout 300ms --list --json
    assert_status 69
    assert_equal "$(json_names)" "$(LC_ALL=C sort <<<"$others" | xargs)"
    run on_pty "$REDISLOCK_BIN" -u "$URL" --list --watch=100ms <<'STEPS'
expect job-1
expect TRYAGAIN
expect job-1
send q
wait 0
STEPS
    assert_status 0
    rcli_at "$FROM" config resetstat >/dev/null
    spawn list lock --connect-timeout 60s --list
    wait_until 10000 refused_by "$FROM" TRYAGAIN
    moved
    reap_quiet list
    # shellcheck disable=SC2086 # words on purpose
    rows $others "$ONE" "$TWO"
    empty_nodes
}

# masters PORT...: the talker's item by which it names these as the masters of a cluster, of slots that
# FIRST_SLOTS has.
FIRST_SLOTS=(0 1 2)
masters() {
    local port number=0 slot
    printf 'raw *%d\\r\\n' $#
    for port; do
        slot=${FIRST_SLOTS[number++]}
        printf '*3\\r\\n:%d\\r\\n:%d\\r\\n*2\\r\\n$9\\r\\n127.0.0.1\\r\\n:%d\\r\\n' "$slot" "$slot" "$port"
    done
}

@test "--list: a node that still loads is asked for the others again" {
    local URL
    URL=$(any_url n1)
    on_each_node
    lock --list >/dev/null # now the script is known everywhere
    talker_start --tcp 'reply -LOADING Redis is loading the dataset in memory' \
        "$(masters "$(redis_port n1)" "$(redis_port n2)" "$(redis_port n3)")"
    URL=$TALKER_URL run --separate-stderr lock --list
    assert_status 0
    assert_no_stderr
    rows "$ONE" "$TWO" "$THREE"
}

# 150 names, and one of the three nodes behind a proxy.
n3_behind_proxy() {
    URL=$(any_url n1)
    empty_nodes
    remember_there 1 150
    lock --list >/dev/null # now the script is known everywhere
    redis_use n3
    proxy_start --tcp
}

# lose_in_looks ADDRESS: the next list loses the node behind the proxy in its first answer about a lock;
# the node of TALKER_URL, which names all three as masters, sends whoever asks about a lock to ADDRESS.
lose_in_looks() {
    local names
    talker_start --tcp --repeat-last \
        "when CLUSTER $(masters "$(redis_port n1)" "$(redis_port n2)" "${PROXY_URL##*:}")" \
        "reply -MOVED 1 $1"
    URL=$TALKER_URL lock --list none >/dev/null
    names=$(proxy_stat s2c)
    proxy_do cut-after 0 s2c
    proxy_do next cut-after $((names + 10)) s2c
}

@test "--list: a node that goes while its locks are looked at is asked no more; the others are shown" {
    local URL node port before shown
    n3_behind_proxy
    port=${PROXY_URL##*:}
    lose_in_looks "127.0.0.1:$port"
    before=$(boottime_ms)
    URL=$TALKER_URL run --separate-stderr lock --connect-timeout 3s --list
    assert_between $(($(boottime_ms) - before)) 2990 5900
    assert_status 69
    assert_one_line "the list is not whole: redis://127.0.0.1:$port: the server closed the connection; no working Redis"
    shown=$(sed '1d; s/ .*//' <<<"$output")
    assert_equal "$(while read -r node; do owner_of "lock:$node"; done <<<"$shown" | sort -u | xargs)" 'n1 n2'
    assert_equal "$(wc -l <<<"$shown")" \
        "$(($(rcli_at n1 dbsize) + $(rcli_at n2 dbsize)))"
    empty_nodes
}

@test "--list: a node that goes while its locks are looked at, and has a successor: that one is asked for the rest" {
    local URL before FIRST_SLOTS=(0 5461 10923) # as they are
    n3_behind_proxy
    lose_in_looks "127.0.0.1:$(redis_port n3)"
    before=$(proxy_stat connections)
    URL=$TALKER_URL run --separate-stderr lock --connect-timeout 3s --list
    assert_status 0
    assert_no_stderr
    # shellcheck disable=SC2046 # words on purpose
    rows $(printf 'job-%d\n' {1..150})
    assert_equal "$(($(proxy_stat connections) - before))" 1
    # and the node of the URL is the last to hear of it
    talker_start --tcp "when CLUSTER $(masters "$(redis_port n1)" "$(redis_port n2)" 1)" # and then it closes
    URL=$TALKER_URL run --separate-stderr lock --connect-timeout 3s --list
    assert_status 0
    # shellcheck disable=SC2046 # words on purpose
    rows $(printf 'job-%d\n' {1..150})
    empty_nodes
}

@test "--list: with one node lost, the others' locks are still found by any node of the URL" {
    local URL
    URL=$(any_url n1)
    on_each_node
    talker_start --tcp "when CLUSTER $(masters "$(redis_port n1)" "$(redis_port n2)" 1)" # and then it closes
    rcli_at n2 script flush >/dev/null # so that somebody has to be asked where its lock is
    URL=redis+cluster://${TALKER_URL#redis://},127.0.0.1:$(redis_port n1) run --separate-stderr lock \
        --connect-timeout 300ms --list
    assert_status 69
    rows "$ONE" "$TWO"
    assert_one_line 'the list is not whole: redis://127.0.0.1:1: Connection refused; no working Redis'
}

@test "--list by a user who may not see the nodes: 77 for a cluster's URL, the one node for a plain one" {
    local URL node
    URL=$(any_url n1)
    on_each_node
    for node in n1 n2 n3; do
        rcli_at "$node" acl setuser cron on nopass '~*' '&*' +@all -cluster >/dev/null
    done
    URL=$(cluster_url n1) run --separate-stderr lock --user cron --list
    assert_status 77
    assert_no_output
    assert_one_line 'NOPERM.*cluster'
    run --separate-stderr lock --user cron --list
    assert_status 0
    grep -q "^$ONE " <<<"$output"
    grep -q "^$TWO " <<<"$output" && fail 'how?'
    for node in n1 n2 n3; do
        rcli_at "$node" acl setuser cron '+cluster|slots' >/dev/null
    done
    run --separate-stderr lock --user cron --list
    assert_line_output "^$TWO "
    assert_line_output "^$THREE "
}

@test "a slot that is moving: its lock is extended where it is" {
    local URL name
    URL=$(any_url n1)
    name=$(name_on n1)
    hold_there job -t 3 "$name"
    moving "$name"
    one_more_extension job
    one_more_extension job
    moved
    one_more_extension job
    let_go_quiet job
    free_on "$TO" "lock:$name"
}

@test "row 34: a slot half of whose keys have moved: extensions work, acquisitions wait" {
    local URL name
    URL=$(any_url n1)
    name=$(name_on n2)
    hold_there job -t 3 "$name"
    moving "$name"
    move_key "lock:$name"
    one_more_extension job
    one_more_extension job
    run --separate-stderr lock --connect-timeout 0.5 "$name" -- touch "$ROOM/ran"
    assert_status 69
    assert_line_stderr 'TRYAGAIN|ASK'
    spawn second lock -w inf --connect-timeout 60 "$name" -- "$WITNESS" --log "$ROOM/log"
    moved
    wait_until 15000 in_line_on "$TO" "$name" 1
    let_go_quiet job
    reap_quiet second 20000
    [[ ! -e $ROOM/ran ]]
    assert_no_overlap "$ROOM/log"
}

@test "ASK: what another one holds where the slot goes to is a loss, not an error" {
    local URL name
    URL=$(any_url n1)
    name=$(name_on n3)
    hold_there job -t 3 "$name"
    moving "$name"
    rcli_at "$FROM" del "lock:$name" >/dev/null
    redis-cli -s "$(redis_sock "$TO")" >/dev/null <<EOF2
asking
set lock:$name foreign px 60000
EOF2
    reap job 20000
    assert_status 79
    assert_line_stderr 'held by another program'
    moved
    rcli_at "$TO" del "lock:$name" >/dev/null
}

@test "a foreign token in a slot that is moving is a loss as well" {
    local URL name
    URL=$(any_url n1)
    name=$(name_on n1)
    hold_there job -t 3 "$name"
    moving "$name"
    rcli_at "$FROM" set "lock:$name" foreign px 60000 xx >/dev/null
    reap job 20000
    assert_status 79
    assert_line_stderr 'lost the lock'
    rcli_at "$FROM" del "lock:$name" >/dev/null
    moved
}

@test "ASK while standing in line: a waiter whose slot moves gets its turn" {
    local URL name
    URL=$(any_url n1)
    name=$(name_on n2)
    hold_there job -t 3 "$name"
    spawn second lock -w inf "$name" -- "$WITNESS" --log "$ROOM/log"
    wait_until 10000 in_line_on "$(owner_of "lock:$name")" "$name" 1
    moving "$name"
    moved
    let_go_quiet job
    reap_quiet second 40000
    assert_no_overlap "$ROOM/log"
}

@test "resharding while a job runs and others come: nobody overlaps, nothing is lost" {
    local URL name round
    URL=$(cluster_url n1 n2 n3)
    name=$(name_on n1)
    hold_there job -t 3 "$name"
    for round in 1 2 3; do
        moving "$name"
        run --separate-stderr lock --connect-timeout 0.3 "$name" -- "$WITNESS" --log "$ROOM/log"
        [[ $status == 75 || $status == 69 ]] || fail "status $status"
        moved
        run --separate-stderr lock "$name" -- "$WITNESS" --log "$ROOM/log"
        assert_status 75
    done
    one_more_extension job
    let_go_quiet job
    assert_no_overlap "$ROOM/log"
}

@test "a redirect that leads in circles, and one without sense, end" {
    talker_start --tcp --repeat-last 'reply -MOVED 1 :1'
    URL=$TALKER_URL run --separate-stderr lock --connect-timeout 0.5 job -- true
    assert_status 69
    talker_start --tcp --repeat-last 'reply -MOVED 1'
    URL=$TALKER_URL run --separate-stderr lock --connect-timeout 30 job -- true
    assert_status 76
    assert_one_line 'MOVED 1'
    talker_start --tcp --repeat-last "reply -MOVED 1 ${TALKER_URL#redis://}"
    URL=$TALKER_URL run --separate-stderr lock --connect-timeout 0.5 job -- true
    [[ $status == 69 || $status == 76 ]] || fail "status $status"
}

@test "CLUSTERDOWN is an error that passes" {
    talker_start --tcp --repeat-last 'reply -CLUSTERDOWN The cluster is down'
    URL=redis+cluster://${TALKER_URL#redis://} run --separate-stderr lock --connect-timeout 0.5 job -- true
    assert_status 69
    assert_one_line CLUSTERDOWN
    # where another node serves, this one's trouble is not the lock's
    URL=redis+cluster://${TALKER_URL#redis://},127.0.0.1:$(redis_port n1) run --separate-stderr lock \
        job -- echo elsewhere
    assert_output elsewhere
    assert_no_stderr
}

@test "row 32: 'non local key' is an error that passes" {
    talker_start --tcp 'reply -ERR Script attempted to access a non local key in a cluster node' \
        'reply -MOVED 1 127.0.0.1:1'
    spawn run env URL="$TALKER_URL" "$REDISLOCK_BIN" -u "$TALKER_URL" --connect-timeout 0.5 job -- true
    reap run
    assert_status 69
}

# A cluster with replicas, of this test alone.
own_cluster() {
    FILE_ROOM=
    NODE_TIMEOUT=1000 cluster_start 1
}

# replica_of NODE
replica_of() {
    local name id
    id=$(node_id "$1")
    for name in r1 r2 r3; do
        if rcli_at "$name" cluster nodes | grep myself | grep -q "slave $id"; then
            printf '%s\n' "$name"
            return
        fi
    done
    return 1
}

in_step_with() {
    [[ $(rcli_at "$1" role | head -n 1) == slave ]] && link_is_up "$1"
}

# replica_has NODE KEY: for wait_until.
replica_has() {
    [[ $(printf 'readonly\nexists %s\n' "$2" | redis-cli -s "$(redis_sock "$1")" | tail -n 1) == 1 ]]
}

# taken_over NODE: it has become a master; a failover that timed out is asked for again. For wait_until.
taken_over() {
    is_master_of_slots "$1" && return
    rcli_at "$1" cluster failover | grep -v '^OK' >&2
    wait_until 6000 is_master_of_slots "$1"
}

is_master_of_slots() {
    role_is "$1" master && rcli_at "$1" cluster info | grep -q '^cluster_state:ok'
}

# A node that wins a second election within some seconds of its first (four node timeouts) counts the votes
# of the first (redis/redis#8753): for a moment two nodes are master. So each node here takes over once.
@test "row 4: CLUSTER FAILOVER in a loop during acquisitions: one fence and one release each" {
    local URL master replica name other last
    own_cluster
    URL=$(cluster_url n1 n2 n3)
    for master in n1 n2; do
        name=$(name_on "$master")
        replica=$(replica_of "$master")
        last=0
        for other in "$replica" "$master"; do
            wait_until 30000 in_step_with "$other"
            rcli_at "$other" cluster failover
            for _ in 1 2 3; do
                run --separate-stderr lock --connect-timeout 30 "$name" -c 'echo $REDISLOCK_FENCE'
                assert_status 0
                assert_no_stderr
                ((output > last)) || fail "fence $output after $last"
                last=$output
            done
            wait_until 40000 taken_over "$other"
            wait_until 10000 free_on "$other" "lock:$name"
            assert_equal "$(rcli_at "$other" hget "lock:{lock:$name}:state" fence)" "$last"
        done
    done
}

@test "row 27: kill -9 of the master: the job runs on at its replica, the waiter gets its turn" {
    local URL name replica
    own_cluster
    URL=$(cluster_url n1 n2 n3)
    name=$(name_on n1)
    replica=$(replica_of n1)
    wait_until 20000 in_step_with "$replica"
    hold_there job -t 40 "$name"
    spawn second lock -w inf --connect-timeout 60 "$name" -- "$WITNESS" --log "$ROOM/log"
    wait_until 10000 replica_has "$replica" "lock:{lock:$name}:queue"
    redis_kill9 n1
    wait_until 60000 is_master_of_slots "$replica"
    wait_until 30000 in_line_on "$replica" "$name" 1
    run --separate-stderr lock --connect-timeout 30 "$name" -- true
    assert_status 75
    let_go_quiet job
    reap_quiet second 60000
    assert_no_overlap "$ROOM/log"
}

# has_all_of REPLICA MASTER: for wait_until.
has_all_of() {
    in_step_with "$1" && [[ $(rcli_at "$1" dbsize) == "$(rcli_at "$2" dbsize)" ]]
}

@test "--list: a master that is frozen, and one that dies: whoever takes over is looked through, each name once" {
    local URL names first second
    own_cluster
    URL=$(cluster_url n3 n1)
    remember_there 1 60
    names=$(printf 'job-%d\n' {1..60})
    first=$(replica_of n1) second=$(replica_of n2)
    wait_until 20000 has_all_of "$first" n1
    wait_until 20000 has_all_of "$second" n2
    redis_freeze n1
    run --separate-stderr lock --connect-timeout 25s --list
    assert_status 0
    assert_no_stderr
    # shellcheck disable=SC2086 # words on purpose
    rows $names
    redis_thaw n1
    wait_until 20000 is_master_of_slots "$first"
    redis_kill9 n2
    URL=$(any_url n3) run --separate-stderr lock --connect-timeout 25s --list --json
    assert_status 0
    assert_no_stderr
    assert_equal "$(json_names)" "$(LC_ALL=C sort <<<"$names" | xargs)"
}

@test "a job whose master dies with the lock unreplicated puts it back at the replica" {
    local URL name replica
    own_cluster
    URL=$(cluster_url n1 n2 n3)
    name=$(name_on n1)
    replica=$(replica_of n1)
    wait_until 20000 in_step_with "$replica"
    hold_there job -t 12 "$name"
    wait_until 10000 replica_has "$replica" "lock:$name"
    redis_kill9 n1
    wait_until 60000 is_master_of_slots "$replica"
    rcli_at "$replica" del "lock:$name" "lock:{lock:$name}:state" >/dev/null
    wait_until 30000 holds_on "$replica" "lock:$name"
    let_go job
    assert_status 0
    assert_line_stderr 'put back'
}

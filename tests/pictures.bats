#!/usr/bin/env bats
# The pictures of docs/pictures: the figures are what their descriptions and src make now, the
# screenshots are there and whole, and the README shows all of them.

setup() {
    ROOT=$(cd "$BATS_TEST_DIRNAME/.." && pwd)
    PICTURES=$ROOT/docs/pictures
    export PYTHONDONTWRITEBYTECODE=1
}

# A copy of what the figures are made from.
copy_sources() {
    COPY=$BATS_TEST_TMPDIR/copy
    mkdir -p "$COPY/docs" "$COPY/tests/tools"
    cp -r "$PICTURES" "$COPY/docs/"
    cp -r "$ROOT/src" "$COPY/"
    cp "$ROOT/tests/tools/layers" "$COPY/tests/tools/"
}

# figures FOLDER: they are, to the byte, what draw makes there.
figures() {
    local made=$BATS_TEST_TMPDIR/made source name
    rm -rf "$made"
    mkdir "$made"
    "$1/draw" "$made"
    for source in "$1"/*.txt; do
        name=$(basename "$source" .txt)
        diff "$1/$name.svg" "$made/$name.svg" || {
            echo "docs/pictures/draw makes $name.svg anew"
            return 1
        }
    done
}

well_formed() {
    python3 -c 'import sys, xml.dom.minidom; xml.dom.minidom.parse(sys.argv[1])' "$1"
}

@test "the figures are what their descriptions and src make now" {
    [ "$(find "$PICTURES" -name '*.txt' | wc -l)" -ge 3 ]
    figures "$PICTURES"
}

@test "a new file, a room that moves and a changed description are seen" {
    copy_sources
    figures "$COPY/docs/pictures"
    touch "$COPY/src/lock/lease_again.c"
    run figures "$COPY/docs/pictures"
    [ "$status" -eq 1 ]
    [[ $output == *lease_again*'makes house.svg anew'* ]]
    rm "$COPY/src/lock/lease_again.c"
    sed -i 's/floor\["job"\] = 4/floor["job"] = 3/' "$COPY/tests/tools/layers"
    run figures "$COPY/docs/pictures"
    [ "$status" -eq 1 ]
    cp "$ROOT/tests/tools/layers" "$COPY/tests/tools/"
    sed -i 's/48\.89/47.89/' "$COPY/docs/pictures/loss.txt"
    run figures "$COPY/docs/pictures"
    [ "$status" -eq 1 ]
    [[ $output == *'makes loss.svg anew'* ]]
}

@test "every picture is whole, and shown by the README" {
    for picture in "$PICTURES"/*.svg; do
        well_formed "$picture"
        grep -qF "](docs/pictures/${picture##*/})" "$ROOT/README.md" || {
            echo "the README does not show ${picture##*/}"
            false
        }
    done
    run well_formed <(echo '<svg><text></svg>')
    [ "$status" -ne 0 ]
}

@test "the screenshots are of runs that went well" {
    grep -q 'host-[ab] | redislock: nightly-report: held by ' "$PICTURES/demo.svg"
    grep -q 'That is all; ' "$PICTURES/demo.svg"
    grep -q 'locks under .*q quits' "$PICTURES/view.svg"
    grep -qE '\[#+-+\] nightly-report +web-2 [0-9]+ report\.sh' "$PICTURES/view.svg"
}

@test "a screenshot has the colours of the terminal" {
    run "$PICTURES/screen" 'a & b' 20 <<<$'\033[1;31mred\033[0m <\033[7mturned\033[0m\033[38;5;196mone of 256\033[0m\n\n'
    [ "$status" -eq 0 ]
    well_formed <(echo "$output")
    [[ $output == *'a &amp; b'* ]]
    [[ $output == *'fill="#f47067" font-weight="700">red</text>'* ]]
    [[ $output == *'>&lt;</text>'* || $output == *'> &lt;</text>'* ]]
    [[ $output == *'fill="#d6dde5"/>'*'fill="#1c2128">turned'* ]]
    [[ $output == *'fill="#ff0000">one of 256</text>'* ]]
}

# The times in the figure are those of the program's own arithmetic, as the README's table has them.
@test "the figure of a loss names the times of the README's table" {
    for row in from TERM KILL V; do
        time=$(sed -nE "s/^\| $row \|.*\| ([0-9.]+ s) \| [0-9.]+ s \|\$/\1/p" "$ROOT/README.md")
        [ -n "$time" ]
        grep -qF "$time" "$PICTURES/loss.txt"
    done
}

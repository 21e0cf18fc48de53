# The examples of redislock-recipes(7), or of another page ($PAGE), as files to be run. Loaded after
# common.bash:  load lib/page
#
# shellcheck shell=bash

# home_make: a home for the jobs of the page, $HOME_DIR, to be in, and a folder with redislock.
home_make() {
    HOME_DIR=$ROOM/home
    mkdir "$ROOM/bin" "$HOME_DIR"
    ln -s "$REDISLOCK_BIN" "$ROOM/bin/redislock"
    cd "$HOME_DIR" || return
}

# With redislock and its server to be found, as on a host that was set up.
at_home() {
    export PATH=$ROOM/bin:$PATH REDISLOCK_URL=unix://$SOCK
}

# example NAME: prints the display of the page that is called so, as a reader sees it.
example() {
    awk -v wanted="$1" '
        $0 == ".\\\" example: " wanted { found = 1; next }
        found && /^\.Bd -literal/ { inside = 1; next }
        inside && /^\.Ed/ { exit }
        inside { gsub(/\\&/, ""); gsub(/\\e/, "\\"); print; lines++ }
        END { if (!lines) exit 1 }' "$ROOT/man/${PAGE:-redislock-recipes.7}" ||
        fail "${PAGE:-redislock-recipes.7} has no example $1"
}

# examples: the names of all of them.
examples() {
    sed -n 's/^\.\\" example: //p' "$ROOT/man/${PAGE:-redislock-recipes.7}"
}

# example_to FILE NAME: puts it into FILE, which can be run when it is a script.
example_to() {
    example "$2" >"$1" || return
    [[ $(head -c 2 "$1") != '#!' ]] || chmod +x "$1"
}

# here FILE: its places are ours; the server must be named in it in the one way that is replaced.
here() {
    sed -i -e "s#redis://\(cron@\)\?cache\.internal\(:6379\)\?#${HERE_URL:-unix://$SOCK}#g" \
        -e "s#/usr/local/bin#$ROOM/bin#g" -e "s#/srv/report#$HOME_DIR#g" "$1"
    if grep 'cache\.internal' "$1"; then
        fail "the server is named in another way in $1"
    fi
}

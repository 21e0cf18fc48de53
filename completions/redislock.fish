# fish completion for redislock(1).

# Options that are followed by an argument, for the walk below.
set -g __redislock_long_arguments url user password-file sentinel-user sentinel-password-file \
    cacert capath cert key sni wait-replicas prefix ttl wait slots \
    conflict-exit-code quiet-for min-hold jitter max-runtime signal kill-after on-lost on-error connect-timeout \
    command log-format status-fd print config
set -g __redislock_short_arguments u t w S E k c

# Other ways of use: no COMMAND stands behind NAME.
set -g __redislock_modes attach acquire extend release check status list unlock doctor

# Prints where the cursor is: `option` (also at its value, and at NAME), `line` (nothing to offer),
# `first` (right behind NAME), or `command` and then the words of COMMAND so far, one a line.
function __redislock_where
    set -l words (commandline -opc)
    set -e words[1]
    set -l shell_line no
    set -l mode no

    # The options before NAME.
    while set -q words[1]
        set -l word $words[1]
        if test "$word" = --
            set -e words[1]
            break
        end
        string match -q -- '-?*' $word; or break
        set -e words[1]
        set -l wants no
        if string match -q -- '--*' $word
            contains -- (string sub -s 3 -- $word) $__redislock_long_arguments; and set wants yes
            string match -qr -- '^--command(=|$)' $word; and set shell_line yes
            contains -- (string replace -r -- '^--([^=]*).*' '$1' $word) $__redislock_modes; and set mode yes
        else
            set -l letters (string split '' -- (string sub -s 2 -- $word))
            for i in (seq (count $letters))
                contains -- $letters[$i] $__redislock_short_arguments; or continue
                test $letters[$i] = c; and set shell_line yes
                test $i -eq (count $letters); and set wants yes
                break
            end
        end
        test $wants = yes; and set -e words[1]
    end

    if not set -q words[1]
        echo option
        return
    end
    set -e words[1] # NAME
    if test $shell_line = yes; or test $mode = yes; or contains -- "$words[1]" -c --command
        echo line
        return
    end
    if not set -q words[1]
        echo first
        return
    end
    test $words[1] = --; and set -e words[1]
    echo command
    for word in $words
        echo $word
    end
end

function __redislock_at
    set -l where (__redislock_where)
    contains -- $where[1] $argv
end

# COMMAND and its arguments, completed as if they stood alone.
function __redislock_complete_command
    set -l where (__redislock_where)
    set -e where[1]
    complete -C (string join ' ' -- (string escape -- $where) (commandline -ct))
end

complete -c redislock -f
complete -c redislock -n '__redislock_at first command' -a '(__redislock_complete_command)'

complete -c redislock -n '__redislock_at option' -s u -l url -x -a 'redis:// rediss:// redis+sentinel:// redis+cluster:// unix://' -d 'The server that keeps the lock'
complete -c redislock -n '__redislock_at option' -l user -x -d 'ACL user to log in as'
complete -c redislock -n '__redislock_at option' -l password-file -r -F -d 'Read the password from a file'
complete -c redislock -n '__redislock_at option' -l sentinel-user -x -d 'ACL user at sentinels'
complete -c redislock -n '__redislock_at option' -l sentinel-password-file -r -F -d 'Read the password for sentinels from a file'
complete -c redislock -n '__redislock_at option' -l cacert -r -F -d 'Trusted certificates (TLS)'
complete -c redislock -n '__redislock_at option' -l capath -r -F -d 'Folder of trusted certificates (TLS)'
complete -c redislock -n '__redislock_at option' -l cert -r -F -d 'Client certificate (TLS)'
complete -c redislock -n '__redislock_at option' -l key -r -F -d 'Private key of the client certificate'
complete -c redislock -n '__redislock_at option' -l sni -x -d 'Host to ask for and to verify (TLS)'
complete -c redislock -n '__redislock_at option' -l insecure -d 'Do not verify the server (TLS)'
complete -c redislock -n '__redislock_at option' -l wait-replicas -x -d 'Replicas that must acknowledge the lock'
complete -c redislock -n '__redislock_at option' -l prefix -x -d 'Key prefix'
complete -c redislock -n '__redislock_at option' -s t -l ttl -x -d 'Expiry of the lock'
complete -c redislock -n '__redislock_at option' -s n -l nonblock -d 'If held, give up at once'
complete -c redislock -n '__redislock_at option' -s w -l wait -x -a inf -d 'Wait for the lock at most this long'
complete -c redislock -n '__redislock_at option' -s s -l shared -d 'Hold the lock together with other shared holders'
complete -c redislock -n '__redislock_at option' -s x -l exclusive -d 'Hold the lock alone'
complete -c redislock -n '__redislock_at option' -s S -l slots -x -d 'At most so many holders at once'
complete -c redislock -n '__redislock_at option' -s E -l conflict-exit-code -x -d 'Exit status when held'
complete -c redislock -n '__redislock_at option' -s q -l quiet -d 'No message when held'
complete -c redislock -n '__redislock_at option' -l quiet-for -x -d 'No message until the holder is older'
complete -c redislock -n '__redislock_at option' -l min-hold -x -d 'Keep the lock at least this long'
complete -c redislock -n '__redislock_at option' -l jitter -x -d 'Random delay before the first try'
complete -c redislock -n '__redislock_at option' -l max-runtime -x -d 'Stop a command that runs longer'
complete -c redislock -n '__redislock_at option' -l signal -x -a 'TERM INT HUP QUIT USR1 USR2 KILL' -d 'Signal that asks the command to stop'
complete -c redislock -n '__redislock_at option' -s k -l kill-after -x -d 'Time between that signal and KILL'
complete -c redislock -n '__redislock_at option' -l on-lost -x -a 'kill warn' -d 'What happens to the command on a loss'
complete -c redislock -n '__redislock_at option' -l on-error -x -a 'fail skip run' -d 'When Redis cannot be reached at the start'
complete -c redislock -n '__redislock_at option' -l connect-timeout -x -d 'How long the start keeps trying'
complete -c redislock -n '__redislock_at option' -l no-restore -d 'A vanished key counts as lost'
complete -c redislock -n '__redislock_at option' -l foreground -d 'Stay in the process group of the caller'
complete -c redislock -n '__redislock_at option' -l wait-descendants -d 'Hold until every descendant has ended'
complete -c redislock -n '__redislock_at option first' -s c -l command -x -d 'Run LINE with /bin/sh -c'
complete -c redislock -n '__redislock_at option' -s v -l verbose -d 'Say more on stderr'
complete -c redislock -n '__redislock_at option' -l log-format -x -a 'text json' -d 'Form of the messages'
complete -c redislock -n '__redislock_at option' -l status-fd -x -d 'Write events to this descriptor'
complete -c redislock -n '__redislock_at option' -l attach -d 'Lock for the life of the calling script'
complete -c redislock -n '__redislock_at option' -l print -x -a 'nothing fence' -d 'With --attach: what to write to stdout'
complete -c redislock -n '__redislock_at option' -l acquire -d 'Lock NAME and print a token'
complete -c redislock -n '__redislock_at option' -l extend -d 'Push the expiry on, under a token'
complete -c redislock -n '__redislock_at option' -l release -d 'Release under a token'
complete -c redislock -n '__redislock_at option' -l check -d 'Is it still held under a token, or by this run'
complete -c redislock -n '__redislock_at option' -l status -d 'Who holds it, who waits, the last run'
complete -c redislock -n '__redislock_at option' -l list -d 'Show all locks'
complete -c redislock -n '__redislock_at option' -l watch -d 'With --list: show it again and again'
complete -c redislock -n '__redislock_at option' -l json -d 'With --status and --list: as JSON'
complete -c redislock -n '__redislock_at option' -l unlock -d 'Take the lock away from its holder'
complete -c redislock -n '__redislock_at option' -l force -d 'With --unlock: do not ask'
complete -c redislock -n '__redislock_at option' -l doctor -d 'Check the server'
complete -c redislock -n '__redislock_at option' -l config -r -F -d 'Configuration file'
complete -c redislock -n '__redislock_at option' -s h -l help -d 'Print help and exit'
complete -c redislock -n '__redislock_at option' -s V -l version -d 'Print the version and exit'

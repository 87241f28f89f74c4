# Completion of tenantcron in fish.
#   tenantcron completion fish > ~/.config/fish/completions/tenantcron.fish
function __tenantcron_complete
    set -l words (commandline --tokenize --current-process --cut-at-cursor)
    set -l current (commandline --current-token --cut-at-cursor)
    for line in (command $words[1] __complete $words[2..-1] "$current" 2>/dev/null)
        if test "$line" = ':paths'
            __fish_complete_path "$current"
            return
        end
        echo $line
    end
end
complete --command tenantcron --no-files --arguments '(__tenantcron_complete)'

#compdef tenantcron
# Completion of tenantcron in zsh, in a folder of $fpath.
#   tenantcron completion zsh > ~/.zfunc/_tenantcron
_tenantcron() {
    local line text
    local -a complete partial
    for line in "${(@f)$("${words[1]}" __complete "${(@)${(@Q)words}[2,CURRENT]}" 2>/dev/null)}"; do
        [[ -n $line ]] || continue
        if [[ $line == ':paths' ]]; then
            _files
            return
        fi
        text=${line%%$'\t'*}
        if [[ $text == */ ]]; then
            # Not complete yet: a tenant whose schedule follows.
            partial+=("$text")
        elif [[ $line == *$'\t'* ]]; then
            complete+=("${text//:/\\:}:${line#*$'\t'}")
        else
            complete+=("${text//:/\\:}")
        fi
    done
    (( $#partial )) && compadd -S '' -a partial
    (( $#complete )) && _describe 'tenantcron' complete
    (( $#partial + $#complete ))
}
# Loaded from $fpath, this file is the function itself; otherwise it was sourced.
if [[ $funcstack[1] == _tenantcron ]]; then
    _tenantcron "$@"
else
    compdef _tenantcron tenantcron
fi

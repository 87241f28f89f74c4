# Completion of tenantcron in bash.
#   tenantcron completion bash > ~/.local/share/bash-completion/completions/tenantcron
_tenantcron() {
    local line
    COMPREPLY=()
    while IFS= read -r line; do
        if [[ $line == ':paths' ]]; then
            compopt -o default -o filenames 2>/dev/null
            return
        fi
        COMPREPLY+=("${line%%$'\t'*}")
    done < <("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
    # Not complete yet: a tenant whose schedule follows.
    if [[ ${#COMPREPLY[@]} -eq 1 && ${COMPREPLY[0]} == */ ]]; then
        compopt -o nospace 2>/dev/null
    fi
}
complete -F _tenantcron tenantcron

package main

import (
	"bytes"

	"github.com/spf13/cobra"
)

// bashCompletionHelpers defines two functions of the package bash-completion. Cobra's script for bash calls them, and
// systems such as containers may not have the package. The functions join words that bash has split at a colon or an
// equals sign.
const bashCompletionHelpers = `if ! declare -F _get_comp_words_by_ref >/dev/null; then
_get_comp_words_by_ref() {
    local whole='' i
    if [[ $1 == -n ]]; then whole=$2; shift 2; fi
    words=() cword=0 cur='' prev=''
    local glue=''
    for ((i = 0; i < ${#COMP_WORDS[@]}; i++)); do
        if ((i > 0)) && [[ -n $glue || ( -n ${COMP_WORDS[i]} && -n $whole && -z ${COMP_WORDS[i]//[$whole]/} ) ]]; then
            words[${#words[@]}-1]+=${COMP_WORDS[i]}
        else
            words+=("${COMP_WORDS[i]}")
        fi
        glue=''
        if [[ -n ${COMP_WORDS[i]} && -n $whole && -z ${COMP_WORDS[i]//[$whole]/} ]]; then glue=1; fi
        if ((i == COMP_CWORD)); then cword=$((${#words[@]} - 1)); fi
    done
    cur=${words[cword]}
    if ((cword > 0)); then prev=${words[cword-1]}; fi
}
__ltrim_colon_completions() {
    if [[ $1 == *:* && $COMP_WORDBREAKS == *:* ]]; then
        local before=${1%"${1##*:}"} i
        for i in "${!COMPREPLY[@]}"; do COMPREPLY[i]=${COMPREPLY[i]#"$before"}; done
    fi
}
fi

`

// setBashCompletion adds the completion commands to root. The script for bash begins with bashCompletionHelpers.
func (p *program) setBashCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	bash, _, err := root.Find([]string{"completion", "bash"})
	if err != nil || bash.Name() != "bash" {
		return // this version of cobra has no such command
	}
	bash.Long = `Print a script for bash that completes commands, flags, and ids of rules, clients, overrides, webhooks
and tokens.

Load it in this shell:

	source <(headgate completion bash)

Load it in every shell:

	headgate completion bash > ~/.local/share/bash-completion/completions/headgate    # with the package bash-completion
	echo 'source <(headgate completion bash)' >> ~/.bashrc                             # without

Ids come from the rules service that the flags on the line select, or from that of the current context.`
	bash.Example = "  source <(headgate completion bash)"
	bash.RunE = func(c *cobra.Command, _ []string) error {
		var script bytes.Buffer
		if err := root.GenBashCompletionV2(&script, !c.Flags().Changed("no-descriptions")); err != nil {
			return err
		}
		p.Printf("%s%s", bashCompletionHelpers, script.String())
		return nil
	}
}

package main

import (
	"bytes"

	"github.com/spf13/cobra"
)

// bashWords stands before the script for bash, which asks the package bash-completion for the words of a line. Where that is not
// installed, as in containers, this does: words that bash has broken at a colon or an equals sign are put together again.
const bashWords = `if ! declare -F _get_comp_words_by_ref >/dev/null; then
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

// addCompletion adds the command that writes what shells complete by.
func (p *program) addCompletion(root *cobra.Command) {
	root.InitDefaultCompletionCmd()
	bash, _, err := root.Find([]string{"completion", "bash"})
	if err != nil || bash.Name() != "bash" {
		return // there is none to add to
	}
	bash.Long = `Write a script that has bash complete commands, flags, and ids of rules, clients, overrides, webhooks and tokens.

Load it in this shell:

	source <(headgate completion bash)

Load it in each shell:

	headgate completion bash > ~/.local/share/bash-completion/completions/headgate    # with the package bash-completion
	echo 'source <(headgate completion bash)' >> ~/.bashrc                             # without

Ids are those of the rules service that the line names, or the current context.`
	bash.Example = "  source <(headgate completion bash)"
	bash.RunE = func(c *cobra.Command, _ []string) error {
		var script bytes.Buffer
		plainly := c.Flags().Changed("no-descriptions")
		if err := root.GenBashCompletionV2(&script, !plainly); err != nil {
			return err
		}
		p.say("%s%s", bashWords, script.String())
		return nil
	}
}

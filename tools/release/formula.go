package main

import (
	"io"
	"text/template"
)

// formula is a Homebrew formula with the archives of this release.
var formula = template.Must(template.New("headgate.rb").Parse(`class Headgate < Formula
  desc "Rate limiter: gateway, decision service and rules service"
  homepage "https://github.com/headgate/headgate"
  version "{{.Version}}"
  license "Apache-2.0"
{{range $os, $archives := .Systems}}
  on_{{$os}} do
{{- range $archives}}
    on_{{.CPU}} do
      url "https://github.com/headgate/headgate/releases/download/v{{$.Version}}/{{.File}}"
      sha256 "{{.Sum}}"
    end
{{- end}}
  end
{{end}}
  def install
    bin.install "headgate"
    man1.install Dir["man/man1/*"]
    bash_completion.install "completions/headgate.bash" => "headgate"
    zsh_completion.install "completions/headgate.zsh" => "_headgate"
    fish_completion.install "completions/headgate.fish"
  end

  service do
    run [opt_bin/"headgate", "serve"]
    keep_alive true
    environment_variables HEADGATE_DATA_DIR: var/"headgate"
    log_path var/"log/headgate.log"
    error_log_path var/"log/headgate.log"
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/headgate version")
  end
end
`))

type formulaArchive struct{ CPU, File, Sum string }

// writeFormula writes the Homebrew formula.
func (r *release) writeFormula(targets []*target) error {
	systems := make(map[string][]formulaArchive)
	for _, t := range targets {
		system := map[string]string{"darwin": "macos", "linux": "linux"}[t.os]
		if system == "" {
			continue
		}
		sum, err := r.sum(t.archive)
		if err != nil {
			return err
		}
		cpu := map[string]string{"amd64": "intel", "arm64": "arm"}[t.arch]
		systems[system] = append(systems[system], formulaArchive{cpu, t.archive, sum})
	}
	values := struct {
		Version string
		Systems map[string][]formulaArchive
	}{r.number(), systems}
	return r.create("headgate.rb", func(w io.Writer) error { return formula.Execute(w, values) })
}

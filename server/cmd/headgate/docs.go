package main

import (
	"github.com/spf13/cobra"

	"github.com/headgate/headgate/docs"
	"github.com/headgate/headgate/server/cmd/headgate/internal/output"
	"github.com/headgate/headgate/server/docsite"
)

// sections are the sections of the documentation's navigation.
var sections = []docsite.Section{
	{Title: "Start", Documents: []string{"README.md", "tutorial.md"}},
	{Title: "How-to guides", Documents: []string{"howto/", "migrate.md"}},
	{Title: "Use", Documents: []string{
		"rules.md", "config.md", "console.md", "rules-service.md", "redis.md", "fleet.md",
		"api.md", "grpc.md", "resp.md", "envoy.md", "client.md",
		"traffic.md", "whatif.md", "simulator.md",
	}},
	{Title: "Operate", Documents: []string{
		"operate.md", "doctor.md", "alerts.md", "traces.md", "scale.md", "performance.md", "release.md", "security.md",
	}},
	{Title: "Runbooks", Documents: []string{"runbooks/"}},
	{Title: "Reference", Documents: []string{"reference/", "rules-api.md", "misuse.md", "glossary.md"}},
	{Title: "Explanations", Documents: []string{"architecture.md", "algorithms.md", "accuracy.md", "chaos.md"}},
	{Title: "Decisions", Documents: []string{"decisions/"}},
}

func (p *program) docsCommand() *cobra.Command {
	var dir string
	c := &cobra.Command{
		Use:   "docs",
		Short: "Write the documentation as a web site",
		Long: `Write the documentation of this version as a static web site with a search. Every node serves the same site at /docs/
on its admin address.`,
		Example: `  # write the site, to be served by any web server
  headgate docs --dir site`,
		Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			site, err := buildDocs()
			if err != nil {
				return err
			}
			if err := site.Write(dir); err != nil {
				return err
			}
			p.Printf("%s in %s\n", output.Plural(len(site.Names()), "file"), dir)
			return nil
		},
	}
	c.Flags().StringVar(&dir, "dir", "", "write the site to this `DIR`, which is created (required)")
	_ = c.MarkFlagRequired("dir") // the flag exists
	_ = c.MarkFlagDirname("dir")
	return c
}

// buildDocs builds the documentation of this version.
func buildDocs() (*docsite.Site, error) {
	return docsite.Build(docsite.Options{
		Files: docs.Files, Sections: sections, Version: currentBuild().Version,
		Source: "https://github.com/headgate/headgate/blob/main/docs",
	})
}

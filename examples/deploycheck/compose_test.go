package deploycheck

import (
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"sigs.k8s.io/yaml"
)

var composeEnv = []string{
	"POSTGRES_PASSWORD=pw", "GRAFANA_PASSWORD=pw", "API_TOKEN=0123456789abcdef", "ADMIN_TOKEN=fedcba9876543210",
	"KEY_SECRET=0123456789abcdef",
}

// project loads the Compose file as docker compose does: against the schema, with variables and merged anchors.
func project(t *testing.T, environ []string) (*types.Project, error) {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{filepath.Join(deploy, "compose/compose.yaml")}, cli.WithEnv(environ))
	if err != nil {
		return nil, err
	}
	return options.LoadProject(t.Context())
}

func TestComposeFileLoads(t *testing.T) {
	p, err := project(t, composeEnv)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"headgate", "redis-1", "redis-6", "redis-cluster", "postgres", "prometheus", "grafana"} {
		if _, err := p.GetService(name); err != nil {
			t.Error(err)
		}
	}
	for name, s := range p.Services {
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeBind {
				continue
			}
			if _, err := os.Stat(v.Source); err != nil || !v.ReadOnly {
				t.Errorf("%s mounts %s (%v), want a file or a folder that exists, read-only", name, v.Source, err)
			}
		}
		for network := range s.Networks {
			if _, ok := p.Networks[network]; !ok {
				t.Errorf("%s is in network %s, which does not exist", name, network)
			}
		}
		if name == "headgate" || name == "prometheus" || name == "grafana" {
			continue
		}
		if len(s.Ports) > 0 || !slices.Equal(slices.Collect(maps.Keys(s.Networks)), []string{"store"}) {
			t.Errorf("%s can be reached from outside: ports %v, networks %v", name, s.Ports, s.Networks)
		}
	}
}

func TestComposeNeedsEverySecret(t *testing.T) {
	for _, name := range []string{"POSTGRES_PASSWORD", "GRAFANA_PASSWORD"} {
		rest := slices.DeleteFunc(slices.Clone(composeEnv), func(v string) bool { return strings.HasPrefix(v, name+"=") })
		if _, err := project(t, rest); err == nil || !strings.Contains(err.Error(), "set it in .env") {
			t.Errorf("without %s: got %v, want an error that says where to set it", name, err)
		}
	}
	example := string(readFile(t, "compose/env.example"))
	for _, pair := range composeEnv {
		if name, _, _ := strings.Cut(pair, "="); !strings.Contains(example, "\n"+name+"=") {
			t.Errorf("env.example lacks %s", name)
		}
	}
}

// Grafana and Prometheus find each other and Headgate by names of services.
func TestComposeServicesFindEachOther(t *testing.T) {
	p, err := project(t, composeEnv)
	if err != nil {
		t.Fatal(err)
	}
	var sources struct {
		APIVersion  int `json:"apiVersion"`
		DataSources []struct {
			Name, UID, Type, URL, Access string
			IsDefault                    bool `json:"isDefault"`
		} `json:"datasources"`
	}
	if err := yaml.UnmarshalStrict(readFile(t, "compose/grafana/datasource.yaml"), &sources); err != nil {
		t.Fatal(err)
	}
	if got := sources.DataSources[0].URL; got != "http://prometheus:9090" {
		t.Errorf("Grafana reads %s", got)
	}
	var dashboards struct {
		APIVersion int `json:"apiVersion"`
		Providers  []struct {
			Name, Type string
			Options    struct{ Path string }
		} `json:"providers"`
	}
	if err := yaml.UnmarshalStrict(readFile(t, "compose/grafana/dashboards.yaml"), &dashboards); err != nil {
		t.Fatal(err)
	}
	grafana := p.Services["grafana"]
	path := dashboards.Providers[0].Options.Path
	mounted := slices.IndexFunc(grafana.Volumes, func(v types.ServiceVolumeConfig) bool { return v.Target == path })
	if mounted < 0 {
		t.Fatalf("no folder is mounted at %s", path)
	}
	if files, err := filepath.Glob(filepath.Join(grafana.Volumes[mounted].Source, "*.json")); err != nil || len(files) == 0 {
		t.Errorf("no dashboard is in %s (%v)", grafana.Volumes[mounted].Source, err)
	}
	store := p.Services["headgate"].Environment["HEADGATE_STORE"]
	for host := range strings.SplitSeq(strings.TrimPrefix(*store, "redis-cluster://"), ",") {
		name, _, _ := strings.Cut(host, ":")
		if _, err := p.GetService(name); err != nil {
			t.Errorf("the store is at %s: %v", host, err)
		}
	}
}

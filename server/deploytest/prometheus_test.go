package deploytest

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/headgate/headgate/rules/file/source"
)

const repository = "../.."

// metricNames returns the names of all metrics that package telemetry declares, with those of histogram series.
func metricNames(t *testing.T) map[string]bool {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), repository+"/server/telemetry/names.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]bool{"headgate_build_info": true}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			if f, ok := n.Fun.(*ast.Ident); ok && f.Name == "desc" {
				if literal, ok := n.Args[0].(*ast.BasicLit); ok {
					names["headgate_"+unquote(t, literal)] = true
				}
			}
		case *ast.BasicLit:
			if text := n.Value; n.Kind == token.STRING && strings.HasPrefix(text, `"headgate_`) {
				name := unquote(t, n)
				names[name] = true
				if strings.HasSuffix(name, "_seconds") {
					names[name+"_bucket"], names[name+"_sum"], names[name+"_count"] = true, true, true
				}
			}
		}
		return true
	})
	if len(names) < 50 {
		t.Fatalf("got only %d metrics of telemetry/names.go", len(names))
	}
	return names
}

func unquote(t *testing.T, literal *ast.BasicLit) string {
	t.Helper()
	text, err := strconv.Unquote(literal.Value)
	if err != nil {
		t.Fatal(err)
	}
	return text
}

// usedMetrics are the names of metrics in expressions. Recording rules have colons.
var usedMetrics = regexp.MustCompile(`\bheadgate[:_][a-z0-9_:]+`)

func readFile(t *testing.T, path string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(repository, path))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

func TestPrometheusRulesPassTheirUnitTests(t *testing.T) {
	t.Parallel()
	for _, args := range [][]string{{"check", "rules", "headgate.rules.yaml"}, {"test", "rules", "headgate.test.yaml"}} {
		c := exec.CommandContext(t.Context(), "promtool", args...)
		c.Dir = repository + "/deploy/prometheus"
		if out, err := c.CombinedOutput(); err != nil {
			t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
		}
	}
}

func TestEveryAlertHasARunbookAndATest(t *testing.T) {
	text, tests := readFile(t, "deploy/prometheus/headgate.rules.yaml"), readFile(t, "deploy/prometheus/headgate.test.yaml")
	f, err := source.Read("headgate.rules.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	alerts := 0
	for _, group := range f.Root.Field("groups").Items {
		for _, rule := range group.Field("rules").Items {
			alert := rule.Field("alert")
			if alert == nil {
				continue
			}
			alerts++
			if !strings.Contains(tests, "alertname: "+alert.Text) {
				t.Errorf("alert %s has no unit test", alert.Text)
			}
			url := rule.Field("annotations").Field("runbook_url").Text
			page, isPage := strings.CutPrefix(url, `{{ query "headgate:docs" | first | label "base" }}/`)
			if !isPage {
				t.Errorf("alert %s: got the runbook %s, want a page below the base of headgate:docs", alert.Text, url)
				continue
			}
			page = "docs/" + strings.Replace(page, ".html", ".md", 1)
			if !strings.Contains(readFile(t, page), "Alert: `"+alert.Text+"`") {
				t.Errorf("alert %s: its runbook %s does not name it", alert.Text, page)
			}
		}
	}
	if alerts < 10 {
		t.Errorf("got %d alerts, want at least 10", alerts)
	}
}

func TestRulesAndDashboardsUseMetricsThatExist(t *testing.T) {
	names := metricNames(t)
	rules := readFile(t, "deploy/prometheus/headgate.rules.yaml")
	for _, match := range regexp.MustCompile(`record: (\S+)`).FindAllStringSubmatch(rules, -1) {
		names[match[1]] = true
	}
	var used []string
	for _, name := range []string{"overview", "stores", "fleet"} {
		used = append(used, dashboardMetrics(t, name)...)
	}
	for line := range strings.Lines(rules) {
		if !strings.HasPrefix(line, "#") && !strings.Contains(line, "- name:") {
			used = append(used, usedMetrics.FindAllString(line, -1)...)
		}
	}
	slices.Sort(used)
	for _, name := range slices.Compact(used) {
		if !names[name] {
			t.Errorf("the metric %s does not exist", name)
		}
	}
}

// dashboardMetrics returns the metrics that a dashboard uses.
func dashboardMetrics(t *testing.T, name string) (used []string) {
	var dashboard struct {
		UID    string
		Panels []struct {
			Title   string
			Targets []struct{ Expr string }
		}
	}
	if err := json.Unmarshal([]byte(readFile(t, "deploy/grafana/"+name+".json")), &dashboard); err != nil {
		t.Fatal(err)
	}
	if want := "headgate-" + name; dashboard.UID != want {
		t.Errorf("%s.json: got the uid %s, want %s", name, dashboard.UID, want)
	}
	if len(dashboard.Panels) == 0 {
		t.Errorf("%s.json has no panels", name)
	}
	for _, panel := range dashboard.Panels {
		for _, target := range panel.Targets {
			found := usedMetrics.FindAllString(target.Expr, -1)
			if found == nil {
				t.Errorf("%s.json, panel %q: no metric in %s", name, panel.Title, target.Expr)
			}
			used = append(used, found...)
		}
	}
	return used
}

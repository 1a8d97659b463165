package deploycheck

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"helm.sh/helm/v3/pkg/chart/loader"
	"helm.sh/helm/v3/pkg/chartutil"
	"helm.sh/helm/v3/pkg/engine"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/yaml"
)

// render renders the chart with values in YAML, and decodes what it renders.
func render(values string) ([]runtime.Object, error) {
	c, err := loader.Load(filepath.Join(deploy, "helm/headgate"))
	if err != nil {
		return nil, err
	}
	var given map[string]any
	if err := yaml.UnmarshalStrict([]byte(values), &given); err != nil {
		return nil, err
	}
	release := chartutil.ReleaseOptions{Name: "edge", Namespace: "headgate", Revision: 1, IsInstall: true}
	all, err := chartutil.ToRenderValues(c, given, release, chartutil.DefaultCapabilities) // checks values.schema.json
	if err != nil {
		return nil, err
	}
	files, err := engine.Engine{Strict: true, LintMode: false}.Render(c, all)
	if err != nil {
		return nil, err
	}
	var manifests strings.Builder
	for name, text := range files {
		if strings.HasSuffix(name, ".yaml") {
			manifests.WriteString("---\n" + text + "\n")
		}
	}
	return decode([]byte(manifests.String()))
}

// helmValues are values that the chart is tested with, by what they try.
var helmValues = map[string]string{
	"gateway":   "upstream: http://127.0.0.1:1\nserviceMonitor: {enabled: true}\n",
	"decisions": "store: redis://redis:6379\n",
	"fixed size": `
upstream: http://127.0.0.1:1
autoscaling: {enabled: false}
replicas: 2
podDisruptionBudget: {enabled: false}
networkPolicy: {enabled: false}
`,
	"database": "db: postgres://headgate:pass@postgres/headgate\nexistingSecret: mine\n",
	"remote":   "control: https://rules.example.com\nexistingSecret: mine\n",
	"every setting": `
upstream: http://127.0.0.1:1
imagePullSecrets: [{name: a}]
podLabels: {team: edge}
podAnnotations: {a: b}
nodeSelector: {disk: ssd}
tolerations: [{key: a, operator: Exists}]
affinity: {nodeAffinity: {}}
networkPolicy: {egress: [{ports: [{port: 53}]}]}
`,
}

func TestChartRendersWhatKubernetesAccepts(t *testing.T) {
	for name, values := range helmValues {
		t.Run(name, func(t *testing.T) {
			objects, err := render(values)
			if err != nil {
				t.Fatal(err)
			}
			checkConsistency(t, objects)
		})
	}
}

func TestChartFollowsItsValues(t *testing.T) {
	objects, err := render(helmValues["fixed size"])
	if err != nil {
		t.Fatal(err)
	}
	if got := *of[*apps.Deployment](objects)[0].Spec.Replicas; got != 2 {
		t.Errorf("got %d replicas, want 2", got)
	}
	if n := len(of[*autoscaling.HorizontalPodAutoscaler](objects)); n != 0 {
		t.Errorf("got %d autoscalers, want none", n)
	}
	objects, err = render(helmValues["remote"])
	if err != nil {
		t.Fatal(err)
	}
	config := of[*core.ConfigMap](objects)[0].Data
	if _, ok := config["rules.yaml"]; ok || !strings.Contains(config["headgate.yaml"], "control: https://rules.example.com") {
		t.Errorf("got %q, want rules from the remote service only", config)
	}
	for _, s := range of[*core.Secret](objects) {
		if !strings.HasSuffix(s.Name, "-urls") {
			t.Errorf("the chart creates secret %s, although there is one", s.Name)
		}
	}
}

func TestChartRefusesWrongValues(t *testing.T) {
	for _, tt := range []struct{ values, want string }{
		{"upstreem: http://a\n", "upstreem"},
		{"store: memcached://a\n", "pattern"},
		{"autoscaling: {minReplicas: 0}\n", "minReplicas"},
		{"control: https://a\n", "needs existingSecret"},
		{"db: postgres://a\ncontrol: https://a\nexistingSecret: b\n", "both set"},
	} {
		if _, err := render(tt.values); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: got %v, want an error with %q", tt.values, err, tt.want)
		}
	}
}

// The chart and the plain manifests are one deployment written twice: they must not drift apart.
func TestChartAndManifestsAgree(t *testing.T) {
	rendered, err := render(helmValues["gateway"])
	if err != nil {
		t.Fatal(err)
	}
	chart := of[*apps.Deployment](rendered)[0].Spec.Template.Spec
	plain := of[*apps.Deployment](kubernetes(t))[0].Spec.Template.Spec
	got, want := &chart.Containers[0], &plain.Containers[0]
	if !slices.Equal(got.Args, want.Args) || !slices.Equal(got.Ports, want.Ports) {
		t.Errorf("got arguments %q and ports %v, want %q and %v", got.Args, got.Ports, want.Args, want.Ports)
	}
	for _, pair := range [][2]any{
		{got.ReadinessProbe, want.ReadinessProbe},
		{got.LivenessProbe, want.LivenessProbe},
		{got.StartupProbe, want.StartupProbe},
		{got.Resources, want.Resources},
		{got.SecurityContext, want.SecurityContext},
		{chart.SecurityContext, plain.SecurityContext},
	} {
		a, _ := yaml.Marshal(pair[0])
		b, _ := yaml.Marshal(pair[1])
		if string(a) != string(b) {
			t.Errorf("the chart has\n%swant, as the manifests,\n%s", a, b)
		}
	}
}

package deploycheck

import (
	"bytes"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	gateway "github.com/envoyproxy/gateway/api/v1alpha1"
	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	istio "istio.io/client-go/pkg/apis/networking/v1alpha3"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer/json"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"
)

const deploy = "../../deploy"

// decode decodes manifests as the API server does with strict field validation: unknown and repeated fields are errors.
func decode(manifests []byte) ([]runtime.Object, error) {
	scheme := runtime.NewScheme()
	for _, add := range []func(*runtime.Scheme) error{
		apps.AddToScheme, autoscaling.AddToScheme, core.AddToScheme, networking.AddToScheme, policy.AddToScheme,
		monitoring.AddToScheme, istio.AddToScheme, gateway.AddToScheme,
	} {
		if err := add(scheme); err != nil {
			return nil, err
		}
	}
	options := json.SerializerOptions{Yaml: true, Strict: true}
	decoder := json.NewSerializerWithOptions(json.DefaultMetaFactory, scheme, scheme, options)
	var objects []runtime.Object
	documents := utilyaml.NewYAMLReader(newReader(manifests))
	for {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(withoutComments(document))) == 0 {
			continue
		}
		object, _, err := decoder.Decode(document, nil, nil)
		if err != nil {
			return nil, err
		}
		objects = append(objects, object)
	}
}

func withoutComments(document []byte) []byte {
	var kept []byte
	for line := range bytes.Lines(document) {
		if text := bytes.TrimSpace(line); !bytes.HasPrefix(text, []byte("#")) && !bytes.Equal(text, []byte("---")) {
			kept = append(kept, line...)
		}
	}
	return kept
}

// kustomization are the fields of kustomization.yaml that deploy/kubernetes uses.
type kustomization struct {
	meta.TypeMeta `json:",inline"`
	Namespace     string   `json:"namespace"`
	Resources     []string `json:"resources"`
	Images        []struct {
		Name   string `json:"name"`
		NewTag string `json:"newTag"`
	} `json:"images"`
}

// kubernetes returns the objects of deploy/kubernetes.
func kubernetes(t *testing.T) []runtime.Object {
	t.Helper()
	var list kustomization
	if err := yaml.UnmarshalStrict(readFile(t, "kubernetes/kustomization.yaml"), &list); err != nil {
		t.Fatal(err)
	}
	var objects []runtime.Object
	for _, name := range list.Resources {
		found, err := decode(readFile(t, "kubernetes/"+name))
		if err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		objects = append(objects, found...)
	}
	entries, err := os.ReadDir(filepath.Join(deploy, "kubernetes"))
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		if e.Name() != "kustomization.yaml" && !slices.Contains(list.Resources, e.Name()) {
			t.Errorf("kustomization.yaml does not list %s", e.Name())
		}
	}
	return objects
}

func readFile(t *testing.T, path string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(deploy, path))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func TestDecodeRefusesWhatKubernetesRefuses(t *testing.T) {
	const head = "apiVersion: policy/v1\nkind: PodDisruptionBudget\nmetadata: {name: a}\n"
	for _, tt := range []struct{ manifest, want string }{
		{head + "spec: {maxUnavailabel: 1}\n", "unknown field"},
		{head + "spec: {maxUnavailable: 1, maxUnavailable: 2}\n", "already set"},
		{"apiVersion: policy/v1\nkind: Unknown\n", "no kind"},
	} {
		if _, err := decode([]byte(tt.manifest)); err == nil || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%q: got %v, want an error with %q", tt.manifest, err, tt.want)
		}
	}
}

func TestManifestsAreCompleteAndConsistent(t *testing.T) {
	objects := kubernetes(t)
	for _, kind := range []string{
		"ConfigMap", "Deployment", "HorizontalPodAutoscaler", "NetworkPolicy", "PodDisruptionBudget",
		"Service", "ServiceAccount", "ServiceMonitor",
	} {
		has := func(o runtime.Object) bool { return o.GetObjectKind().GroupVersionKind().Kind == kind }
		if !slices.ContainsFunc(objects, has) {
			t.Errorf("no %s", kind)
		}
	}
	checkConsistency(t, objects)
}

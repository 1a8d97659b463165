package deploycheck

import (
	"bufio"
	"bytes"
	"maps"
	"testing"
	"time"

	monitoring "github.com/prometheus-operator/prometheus-operator/pkg/apis/monitoring/v1"
	apps "k8s.io/api/apps/v1"
	autoscaling "k8s.io/api/autoscaling/v2"
	core "k8s.io/api/core/v1"
	networking "k8s.io/api/networking/v1"
	policy "k8s.io/api/policy/v1"
	meta "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"
)

func newReader(data []byte) *bufio.Reader { return bufio.NewReader(bytes.NewReader(data)) }

// of returns the objects of one type.
func of[T runtime.Object](objects []runtime.Object) (found []T) {
	for _, o := range objects {
		if typed, ok := o.(T); ok {
			found = append(found, typed)
		}
	}
	return found
}

// checkConsistency checks that objects refer to what exists: selectors to the pods, ports to named ports, volumes to the
// ConfigMap, and that a pod has time to drain.
func checkConsistency(t *testing.T, objects []runtime.Object) {
	t.Helper()
	deployments := of[*apps.Deployment](objects)
	if len(deployments) != 1 {
		t.Fatalf("got %d deployments, want 1", len(deployments))
	}
	d := deployments[0]
	pod := &d.Spec.Template
	checkSelectors(t, d, objects)
	ports := map[string]bool{}
	for _, p := range pod.Spec.Containers[0].Ports {
		ports[p.Name] = true
	}
	for _, s := range of[*core.Service](objects) {
		for _, p := range s.Spec.Ports {
			if !ports[p.TargetPort.StrVal] {
				t.Errorf("service %s: the pod has no port %s", s.Name, p.TargetPort.String())
			}
		}
	}
	for _, n := range of[*networking.NetworkPolicy](objects) {
		for _, rule := range n.Spec.Ingress {
			for _, p := range rule.Ports {
				if p.Port.Type != intstr.String || !ports[p.Port.StrVal] {
					t.Errorf("network policy: the pod has no port %s", p.Port)
				}
			}
		}
	}
	checkPod(t, &pod.Spec, objects)
}

func checkSelectors(t *testing.T, d *apps.Deployment, objects []runtime.Object) {
	t.Helper()
	selects := func(what string, selector *meta.LabelSelector, target map[string]string) {
		t.Helper()
		s, err := meta.LabelSelectorAsSelector(selector)
		if err != nil || s.Empty() || !s.Matches(labels.Set(target)) {
			t.Errorf("%s selects %v, which does not match %v (%v)", what, s, target, err)
		}
	}
	pods := d.Spec.Template.Labels
	selects("deployment", d.Spec.Selector, pods)
	for _, s := range of[*core.Service](objects) {
		selects("service "+s.Name, &meta.LabelSelector{MatchLabels: s.Spec.Selector}, pods)
	}
	for _, b := range of[*policy.PodDisruptionBudget](objects) {
		selects("disruption budget", b.Spec.Selector, pods)
	}
	for _, n := range of[*networking.NetworkPolicy](objects) {
		selects("network policy", &n.Spec.PodSelector, pods)
	}
	for _, m := range of[*monitoring.ServiceMonitor](objects) {
		checkMonitor(t, m, of[*core.Service](objects))
	}
	for _, h := range of[*autoscaling.HorizontalPodAutoscaler](objects) {
		if scaled := h.Spec.ScaleTargetRef.Name; scaled != d.Name || d.Spec.Replicas != nil {
			t.Errorf("autoscaler of %s with replicas %v, want of %s without replicas", scaled, d.Spec.Replicas, d.Name)
		}
	}
}

// checkMonitor checks that a ServiceMonitor finds exactly one service with its port, under the job that alerts expect.
func checkMonitor(t *testing.T, m *monitoring.ServiceMonitor, services []*core.Service) {
	t.Helper()
	found := 0
	for _, s := range services {
		selector, err := meta.LabelSelectorAsSelector(&m.Spec.Selector)
		if err != nil {
			t.Fatal(err)
		}
		if !selector.Matches(labels.Set(s.Labels)) {
			continue
		}
		found++
		if job := s.Labels[m.Spec.JobLabel]; job != "headgate" {
			t.Errorf("the job is %q, want headgate as in deploy/prometheus", job)
		}
		names := map[string]bool{}
		for _, p := range s.Spec.Ports {
			names[p.Name] = true
		}
		for i := range m.Spec.Endpoints {
			if port := m.Spec.Endpoints[i].Port; !names[port] {
				t.Errorf("service monitor: service %s has no port %q, only %v", s.Name, port, maps.Keys(names))
			}
		}
	}
	if found != 1 {
		t.Errorf("the service monitor finds %d services, want 1", found)
	}
}

func checkPod(t *testing.T, pod *core.PodSpec, objects []runtime.Object) {
	t.Helper()
	c := &pod.Containers[0]
	if c.ReadinessProbe == nil || c.LivenessProbe == nil || c.StartupProbe == nil {
		t.Error("the container lacks a probe")
	}
	s := c.SecurityContext
	if !*s.ReadOnlyRootFilesystem || *s.AllowPrivilegeEscalation || !*pod.SecurityContext.RunAsNonRoot {
		t.Error("the container may write its file system, gain rights, or run as root")
	}
	volumes := map[string]bool{}
	for i := range pod.Volumes {
		volumes[pod.Volumes[i].Name] = true
	}
	for _, m := range c.VolumeMounts {
		if !volumes[m.Name] {
			t.Errorf("no volume %s", m.Name)
		}
	}
	var settings struct {
		Gateway struct {
			DrainDelay   meta.Duration `json:"drain_delay"`
			DrainTimeout meta.Duration `json:"drain_timeout"`
		} `json:"gateway"`
	}
	for _, m := range of[*core.ConfigMap](objects) {
		if err := yaml.Unmarshal([]byte(m.Data["headgate.yaml"]), &settings); err != nil {
			t.Fatal(err)
		}
	}
	drain := settings.Gateway.DrainDelay.Duration + settings.Gateway.DrainTimeout.Duration
	if grace := time.Duration(*pod.TerminationGracePeriodSeconds) * time.Second; drain == 0 || grace <= drain {
		t.Errorf("a pod is killed after %v, want more than the drain of %v", grace, drain)
	}
}

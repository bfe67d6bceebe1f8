package check

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

// A manifest is one rendered object.
type manifest map[string]any

func (m manifest) text(path ...string) string {
	value, _ := m.at(path...).(string)
	return value
}

// program returns the program that the object belongs to.
func (m manifest) program() string {
	labels, _ := m.at("metadata", "labels").(map[string]any)
	program, _ := labels["app.kubernetes.io/name"].(string)
	return program
}

// at returns the value of a field, or nil.
func (m manifest) at(path ...string) any {
	var value any = map[string]any(m)
	for _, name := range path {
		fields, _ := value.(map[string]any)
		value = fields[name]
	}
	return value
}

// render returns the objects that kubectl apply -k would send.
func render(t *testing.T, folder string) []manifest {
	t.Helper()
	rendered, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		t.Fatalf("%s: %v", folder, err)
	}
	manifests := make([]manifest, 0, rendered.Size())
	for _, resource := range rendered.Resources() {
		text, err := resource.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		var m manifest
		if err := json.Unmarshal(text, &m); err != nil {
			t.Fatal(err)
		}
		manifests = append(manifests, m)
	}
	return manifests
}

// A validator checks objects against the schemas of Kubernetes.
type validator struct {
	folder string
	read   map[string]schemas // by group and version
}

func newValidator(t *testing.T) *validator {
	return &validator{folder: schemaFolder(t), read: make(map[string]schemas)}
}

func (v *validator) check(t *testing.T, m manifest) error {
	t.Helper()
	version := m.text("apiVersion")
	if v.read[version] == nil {
		v.read[version] = readSchemas(t, v.folder, version)
	}
	group, release, grouped := strings.Cut(version, "/")
	if !grouped {
		group, release = "", version
	}
	of := v.read[version].of(kind{Group: group, Version: release, Kind: m.text("kind")})
	if of == nil {
		return fmt.Errorf("unknown kind %s of %s", m.text("kind"), version)
	}
	return v.read[version].check(of, map[string]any(m), m.text("kind"))
}

func kustomizations(t *testing.T) []string {
	t.Helper()
	overlays, err := filepath.Glob("../kubernetes/overlays/*")
	if err != nil || len(overlays) == 0 {
		t.Fatalf("%d overlays, %v", len(overlays), err)
	}
	return append(overlays, "../kubernetes/base")
}

func TestManifestsFitKubernetesSchemas(t *testing.T) {
	v := newValidator(t)
	for _, folder := range kustomizations(t) {
		for _, m := range render(t, folder) {
			if err := v.check(t, m); err != nil {
				t.Errorf("%s: %v", folder, err)
			}
		}
	}
}

func TestInvalidManifestsAreRejected(t *testing.T) {
	v := newValidator(t)
	check := func(change func(spec map[string]any), want string) {
		t.Helper()
		deployment := only(t, render(t, "../kubernetes/base"), "Deployment")
		change(deployment.at("spec").(map[string]any))
		if err := v.check(t, deployment); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want an error of %s", err, want)
		}
	}
	container := func(spec map[string]any) map[string]any {
		return manifest(spec).at("template", "spec", "containers").([]any)[0].(map[string]any)
	}
	check(func(spec map[string]any) { spec["replica"] = 3.0 }, `unknown field "replica"`)
	check(func(spec map[string]any) { spec["minReadySeconds"] = "3" }, "want integer")
	check(func(spec map[string]any) { spec["minReadySeconds"] = 3.5 }, "want integer")
	check(func(spec map[string]any) { delete(spec, "selector") }, `required field "selector"`)
	check(func(spec map[string]any) { container(spec)["readinesProbe"] = container(spec)["readinessProbe"] }, `unknown field "readinesProbe"`)
	check(func(spec map[string]any) { delete(container(spec), "name") }, `required field "name"`)
	check(func(spec map[string]any) { container(spec)["args"] = "serve" }, "want array")
	check(func(spec map[string]any) {
		container(spec)["livenessProbe"].(map[string]any)["httpGet"].(map[string]any)["port"] = true
	},
		"none of the allowed types")
}

// only returns the only object of a kind that belongs to sara.
func only(t *testing.T, manifests []manifest, kind string) manifest {
	t.Helper()
	return onlyOf(t, manifests, "sara", kind)
}

// onlyOf returns the only object of a kind that belongs to a program.
func onlyOf(t *testing.T, manifests []manifest, program, kind string) manifest {
	t.Helper()
	var found manifest
	for _, m := range manifests {
		if m.text("kind") == kind && m.program() == program {
			if found != nil {
				t.Fatalf("several objects of kind %s of %s", kind, program)
			}
			found = m
		}
	}
	if found == nil {
		t.Fatalf("no object of kind %s of %s", kind, program)
	}
	return found
}

// all returns the objects of a kind.
func all(manifests []manifest, kind string) []manifest {
	var found []manifest
	for _, m := range manifests {
		if m.text("kind") == kind {
			found = append(found, m)
		}
	}
	return found
}

// each returns the items of a list of mappings.
func each(list any) []manifest {
	items, _ := list.([]any)
	manifests := make([]manifest, 0, len(items))
	for _, item := range items {
		if fields, ok := item.(map[string]any); ok {
			manifests = append(manifests, fields)
		}
	}
	return manifests
}

func TestPodsAreConfined(t *testing.T) {
	for _, folder := range kustomizations(t) {
		for _, deployment := range all(render(t, folder), "Deployment") {
			checkConfined(t, folder+": "+deployment.program(), deployment.at("spec", "template", "spec").(map[string]any))
		}
	}
}

func checkConfined(t *testing.T, name string, pod manifest) {
	t.Helper()
	if user, _ := pod.at("securityContext", "runAsUser").(float64); pod.at("securityContext", "runAsNonRoot") != true || user == 0 {
		t.Errorf("%s: the pod may run as root: %v", name, pod["securityContext"])
	}
	if pod.text("securityContext", "seccompProfile", "type") != "RuntimeDefault" || pod.at("automountServiceAccountToken") != false ||
		pod.at("enableServiceLinks") != false {
		t.Errorf("%s: the pod lacks a seccomp profile, or gets a token or service variables", name)
	}
	for _, c := range append(each(pod["initContainers"]), each(pod["containers"])...) {
		confined := c.at("securityContext", "readOnlyRootFilesystem") == true && c.at("securityContext", "allowPrivilegeEscalation") == false &&
			fmt.Sprint(c.at("securityContext", "capabilities", "drop")) == "[ALL]"
		if !confined {
			t.Errorf("%s: container %s is not confined: %v", name, c.text("name"), c["securityContext"])
		}
		if c.text("resources", "limits", "memory") == "" || c.text("resources", "requests", "cpu") == "" {
			t.Errorf("%s: container %s has no resources", name, c.text("name"))
		}
		if !isPinned(c.text("image")) {
			t.Errorf("%s: the image %s is not pinned", name, c.text("image"))
		}
	}
}

func TestSecretsAreReferencesOnly(t *testing.T) {
	for _, folder := range kustomizations(t) {
		for _, m := range render(t, folder) {
			if m.text("kind") == "Secret" {
				t.Errorf("%s: it contains a Secret", folder)
			}
		}
		pod := manifest(only(t, render(t, folder), "Deployment").at("spec", "template", "spec").(map[string]any))
		for _, c := range append(each(pod["initContainers"]), each(pod["containers"])...) {
			for _, variable := range each(c["env"]) {
				switch variable.text("name") {
				case "SARA_DATABASE_URL", "SARA_REDIS_URL", "SARA_REDIS_CACHE_URL", "SARA_SECRET_KEY", "SARA_SECRET_KEY_PREVIOUS",
					"AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY":
					if variable.text("valueFrom", "secretKeyRef", "name") == "" {
						t.Errorf("%s: %s does not come from a Secret", folder, variable.text("name"))
					}
				}
			}
		}
	}
}

// podEnvironment returns the environment of the main container, with placeholders for secrets.
func podEnvironment(t *testing.T, manifests []manifest) map[string]string {
	t.Helper()
	environment := make(map[string]string)
	for name, value := range only(t, manifests, "ConfigMap").at("data").(map[string]any) {
		environment[name] = value.(string)
	}
	maps.Copy(environment, map[string]string{
		"SARA_SECRET_KEY": "c2FyYSBpcyBub3Qgc2VjcmV0IGluIHRoaXMgdGVzdC4=", "SARA_DATABASE_URL": "sqlite:sara.db", "SARA_ARCHIVE_URL": "archive"})
	return environment
}

func TestPodSettingsAreConsistent(t *testing.T) {
	for _, folder := range kustomizations(t) {
		manifests := render(t, folder)
		environment := podEnvironment(t, manifests)
		deployment := only(t, manifests, "Deployment")
		pod := manifest(deployment.at("spec", "template", "spec").(map[string]any))
		container := each(pod["containers"])[0]
		autoscaler := only(t, manifests, "HorizontalPodAutoscaler")
		most := autoscaler.at("spec", "maxReplicas").(float64) + deployment.at("spec", "strategy", "rollingUpdate", "maxSurge").(float64)
		if fmt.Sprint(most) != environment["SARA_REPLICAS"] {
			t.Errorf("%s: there can be %v replicas during an update, but SARA_REPLICAS is %s", folder, most, environment["SARA_REPLICAS"])
		}
		if autoscaler.text("spec", "scaleTargetRef", "name") != deployment.text("metadata", "name") || deployment.at("spec", "replicas") != nil {
			t.Errorf("%s: the autoscaler does not control the number of replicas", folder)
		}
		grace := pod["terminationGracePeriodSeconds"].(float64)
		if least := duration(t, environment["SARA_SHUTDOWN_DELAY"]).Seconds() + drainLimit.Seconds(); grace < least {
			t.Errorf("%s: a pod is killed after %v s, but may need %v", folder, grace, least)
		}
		limit, goLimit := bytesOf(t, container.text("resources", "limits", "memory")), bytesOf(t, environment["GOMEMLIMIT"])
		if goLimit > limit*9/10 || bytesOf(t, environment["SARA_CACHE_BYTES"]) > goLimit/2 {
			t.Errorf("%s: GOMEMLIMIT %d and SARA_CACHE_BYTES %s do not fit into %d", folder, goLimit, environment["SARA_CACHE_BYTES"], limit)
		}
		for _, probe := range []string{"startupProbe", "livenessProbe", "readinessProbe"} {
			if container.text(probe, "httpGet", "port") != "admin" {
				t.Errorf("%s: the %s does not use the admin listener", folder, probe)
			}
		}
		checkReferences(t, folder, manifests)
	}
}

// checkReferences checks that the ports and labels in other objects exist in the pods of their program.
func checkReferences(t *testing.T, folder string, manifests []manifest) {
	t.Helper()
	ports := make(map[string]map[string]bool) // by program, and of all programs
	ports[""] = make(map[string]bool)
	labels := make(map[string]map[string]any)
	for _, deployment := range all(manifests, "Deployment") {
		program := deployment.program()
		labels[program], _ = deployment.at("spec", "template", "metadata", "labels").(map[string]any)
		ports[program] = make(map[string]bool)
		for _, container := range each(deployment.at("spec", "template", "spec", "containers")) {
			for _, port := range each(container["ports"]) {
				ports[program][port.text("name")], ports[""][port.text("name")] = true, true
			}
		}
	}
	selects := func(m manifest, path ...string) {
		t.Helper()
		selector, _ := m.at(path...).(map[string]any)
		if len(selector) == 0 {
			t.Errorf("%s: %s %s selects any pod", folder, m.text("kind"), m.text("metadata", "name"))
		}
		for name, value := range selector {
			if labels[m.program()][name] != value {
				t.Errorf("%s: %s selects %s=%v, but pods have %v", folder, m.text("kind"), name, value, labels[m.program()])
			}
		}
	}
	has := func(m manifest, program string, port any) {
		t.Helper()
		if name, ok := port.(string); ok && !ports[program][name] {
			t.Errorf("%s: the %s has the port %q, which pods lack", folder, m.text("kind"), name)
		}
	}
	for _, m := range manifests {
		switch m.text("kind") {
		case "Service":
			selects(m, "spec", "selector")
			for _, port := range each(m.at("spec", "ports")) {
				has(m, m.program(), port["targetPort"])
			}
		case "Deployment", "PodDisruptionBudget":
			selects(m, "spec", "selector", "matchLabels")
		case "NetworkPolicy":
			selects(m, "spec", "podSelector", "matchLabels")
			for _, rule := range each(m.at("spec", "ingress")) {
				for _, port := range each(rule["ports"]) {
					has(m, m.program(), port["port"])
				}
			}
			for _, rule := range each(m.at("spec", "egress")) {
				for _, port := range each(rule["ports"]) {
					has(m, "", port["port"])
				}
			}
		}
	}
}

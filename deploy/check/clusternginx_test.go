package check

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
)

// Clients reach only nginx, over TLS; only nginx reaches sara's API.
func TestNginxInTheClusterIsTheOnlyWayToTheAPI(t *testing.T) {
	manifests := render(t, "../kubernetes/overlays/nginx")
	for _, service := range all(manifests, "Service") {
		if of := service.text("spec", "type"); (of == "LoadBalancer") != (service.program() == "sara-nginx") {
			t.Errorf("the Service %s is of type %q", service.text("metadata", "name"), of)
		}
	}
	if service := onlyOf(t, manifests, "sara-nginx", "Service"); service.text("spec", "externalTrafficPolicy") != "Local" {
		t.Error("nginx sees the addresses of nodes, not of clients")
	}
	rule := each(only(t, manifests, "NetworkPolicy").at("spec", "ingress"))[0]
	if got, want := fmt.Sprint(rule["ports"], rule["from"]),
		"[map[port:api]] [map[podSelector:map[matchLabels:map[app.kubernetes.io/name:sara-nginx]]]]"; got != want {
		t.Errorf("the first rule admits %s, want %s", got, want)
	}
	if podEnvironment(t, manifests)["SARA_TRUSTED_PROXY_HEADER"] != "X-Real-IP" {
		t.Error("all clients have the address of nginx")
	}
}

// The pods mount the configuration of deploy/cdn with this overlay's listener and upstream, under its generated name.
func TestNginxInTheClusterHasItsConfiguration(t *testing.T) {
	manifests := render(t, "../kubernetes/overlays/nginx")
	sources := onlyOf(t, manifests, "sara-nginx", "Deployment").at("spec", "template", "spec", "volumes").([]any)[0]
	mounted := each(manifest(sources.(map[string]any)).at("projected", "sources"))[0].text("configMap", "name")
	var files map[string]any
	for _, m := range all(manifests, "ConfigMap") {
		if m.text("metadata", "name") == mounted {
			files, _ = m.at("data").(map[string]any)
		}
	}
	if names := slices.Sorted(maps.Keys(files)); fmt.Sprint(names) != "[nginx.conf site.conf tls.conf upstream.conf]" {
		t.Fatalf("%s has %v", mounted, names)
	}
	docs := "set $docs_url \"" + podEnvironment(t, manifests)["SARA_BASE_URL"] + "/docs\";"
	if site := files["site.conf"].(string); !strings.Contains(site, docs) || !strings.Contains(site, "\ninclude tls.conf;") {
		t.Errorf("site.conf has not %s, or no HTTPS:\n%s", docs, site)
	}
	service := only(t, slices.DeleteFunc(all(manifests, "Service"), func(m manifest) bool {
		return m.text("metadata", "name") != "sara"
	}), "Service")
	address := fmt.Sprintf("server %s:%v ", service.text("metadata", "name"), each(service.at("spec", "ports"))[0]["port"])
	if upstream := files["upstream.conf"].(string); strings.Count(upstream, address) != 3 || strings.Count(upstream, "\nserver ") != 3 {
		t.Errorf("upstream.conf has not three times %q:\n%s", address, upstream)
	}
}

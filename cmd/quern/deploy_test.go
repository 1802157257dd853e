package main

import (
	"encoding/json"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/knadh/koanf/parsers/yaml"
)

const deployDir = "../../deploy"

// Every variable that the files of deploy set is one that this binary reads.
func TestDeployedVariablesAreRead(t *testing.T) {
	t.Parallel()
	known := []string{"QUERN_CONFIG", "QUERN_SERVER"}
	for _, o := range options() {
		known = append(known, "QUERN_"+strings.ToUpper(o.key()))
	}
	set, files := regexp.MustCompile(`QUERN_[A-Z_]+`), 0
	err := filepath.WalkDir(deployDir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files++
		text, err := os.ReadFile(path)
		for _, name := range set.FindAllString(string(text), -1) {
			if !slices.Contains(known, name) {
				t.Errorf("%s names %s, which nothing reads", path, name)
			}
		}
		return err
	})
	if err != nil || files < 10 {
		t.Fatalf("%d files were read: %v", files, err)
	}
}

// takes says why the command line is wrong: it has an unknown command or flag.
func takes(args []string) error {
	a := &app{in: strings.NewReader(""), out: io.Discard, err: io.Discard, env: func() []string { return nil }}
	c, rest, err := a.newRoot().Find(args)
	if err == nil {
		err = c.ParseFlags(rest)
	}
	return err
}

// The commands in the container file are commands of this binary, and its health check asks the address that its server serves probes at.
func TestContainerFileFitsTheBinary(t *testing.T) {
	t.Parallel()
	data, err := os.ReadFile(filepath.Join(deployDir, "container", "Containerfile"))
	if err != nil {
		t.Fatal(err)
	}
	text, commands := string(data), 0
	for _, line := range regexp.MustCompile(`(?m)^(?:CMD|ENTRYPOINT|HEALTHCHECK .*CMD) (\[.*\])$`).FindAllStringSubmatch(text, -1) {
		var args []string
		if err := json.Unmarshal([]byte(line[1]), &args); err != nil {
			t.Fatalf("%s: %v", line[0], err)
		}
		if args[0] == "/quern" {
			args = args[1:]
		}
		if err := takes(args); err != nil {
			t.Errorf("%s: %v", line[0], err)
		}
		commands++
	}
	probes := regexp.MustCompile(`QUERN_METRICS_LISTEN=(\S+)`).FindStringSubmatch(text)
	if commands != 3 || probes == nil || !strings.Contains(text, `"http://`+probes[1]+`"`) {
		t.Errorf("%d commands, probes at %v; want 3, of which the health check asks there", commands, probes)
	}
}

// kubernetes has the fields that the test reads of the objects.
type kubernetes struct {
	Kind string `json:"kind"`
	Spec struct {
		Selector json.RawMessage   `json:"selector"`
		Ports    []kubernetesPort  `json:"ports"`
		Pod      kubernetesPodSpec `json:"template"`

		Replicas       int `json:"replicas"`
		MaxUnavailable int `json:"maxUnavailable"`

		Claims []struct {
			Metadata struct{ Name string } `json:"metadata"`
		} `json:"volumeClaimTemplates"`
		Endpoints []kubernetesPort `json:"endpoints"`
	} `json:"spec"`
}

type kubernetesPort struct {
	Name       string `json:"name"`
	Path       string `json:"path"`
	Port       any    `json:"port"`
	TargetPort string `json:"targetPort"`
	Container  int    `json:"containerPort"`
}

type kubernetesProbe struct {
	Get kubernetesPort `json:"httpGet"`
}

type kubernetesEnv struct {
	Name, Value string
	From        struct {
		Secret struct{ Name, Key string } `json:"secretKeyRef"`
		Field  struct {
			Path string `json:"fieldPath"`
		} `json:"fieldRef"`
	} `json:"valueFrom"`
}

type kubernetesPodSpec struct {
	Metadata struct {
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Spec struct {
		Security   map[string]any   `json:"securityContext"`
		Volumes    []map[string]any `json:"volumes"`
		Containers []struct {
			Args     []string         `json:"args"`
			Env      []kubernetesEnv  `json:"env"`
			Ports    []kubernetesPort `json:"ports"`
			Startup  kubernetesProbe  `json:"startupProbe"`
			Live     kubernetesProbe  `json:"livenessProbe"`
			Ready    kubernetesProbe  `json:"readinessProbe"`
			Security map[string]any   `json:"securityContext"`
			Mounts   []struct {
				Name string `json:"name"`
				Path string `json:"mountPath"`
			} `json:"volumeMounts"`
		} `json:"containers"`
	} `json:"spec"`
}

func readKubernetes(t *testing.T, file string) map[string]kubernetes {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deployDir, "kubernetes", file))
	if err != nil {
		t.Fatal(err)
	}
	objects := map[string]kubernetes{}
	for part := range strings.SplitSeq(string(text), "\n---\n") {
		fields, err := yaml.Parser().Unmarshal([]byte(part))
		if err != nil {
			t.Fatalf("%v in\n%s", err, part)
		}
		data, err := json.Marshal(fields)
		if err != nil {
			t.Fatal(err)
		}
		var x kubernetes
		if err := json.Unmarshal(data, &x); err != nil {
			t.Fatalf("%v in\n%s", err, part)
		}
		objects[x.Kind] = x
	}
	return objects
}

// The objects for Kubernetes fit each other and the server: it takes its command line and options, listens on the ports that others name,
// answers the probes, has its data in a volume that outlives the pod, and runs without rights.
func TestKubernetesFitsTheServer(t *testing.T) {
	t.Parallel()
	objects := readKubernetes(t, "quern.yaml")
	pod := objects["StatefulSet"].Spec.Pod.Spec
	c := pod.Containers[0]
	var env []string
	options := map[string]string{}
	for _, e := range c.Env {
		env = append(env, e.Name+"="+e.Value)
		options[e.Name] = e.Value
	}
	a := &app{in: strings.NewReader(""), out: io.Discard, err: io.Discard, env: func() []string { return env }}
	serve, flags, err := a.newRoot().Find(c.Args)
	if err != nil || serve.Name() != "serve" {
		t.Fatalf("the container runs %v: %v", c.Args, err)
	}
	if err := serve.ParseFlags(flags); err != nil {
		t.Fatal(err)
	}
	config, err := a.loadConfig(serve.Flags())
	if err != nil {
		t.Fatalf("the server would not start: %v", err)
	}
	ports := map[string]bool{}
	for _, p := range c.Ports {
		ports[p.Name] = true
		address := map[string]string{"http": config.Listen, "metrics": config.MetricsListen}[p.Name]
		if !strings.HasSuffix(address, ":"+jsonText(p.Container)) {
			t.Errorf("the port %s is %d, and the server listens on %q", p.Name, p.Container, address)
		}
	}
	for _, probe := range []kubernetesProbe{c.Startup, c.Live, c.Ready} {
		if probe.Get.Port != "metrics" || !slices.Contains([]string{"/livez", "/readyz"}, probe.Get.Path) {
			t.Errorf("a probe asks %+v", probe.Get)
		}
	}
	service := map[string]bool{}
	for _, p := range objects["Service"].Spec.Ports {
		service[p.Name] = ports[p.TargetPort]
	}
	if endpoint := objects["ServiceMonitor"].Spec.Endpoints[0]; !service["http"] || !service["metrics"] || !service[endpoint.Port.(string)] || endpoint.Path != "/metrics" {
		t.Errorf("the service has the ports %v, and Prometheus asks %v", service, endpoint)
	}
	kept := false
	for _, m := range c.Mounts {
		kept = kept || m.Path == options["QUERN_DATA"] && m.Name == objects["StatefulSet"].Spec.Claims[0].Metadata.Name
	}
	if !kept || len(objects) != 5 {
		t.Errorf("the data is in %s, which is no claimed volume; there are %d kinds of objects", options["QUERN_DATA"], len(objects))
	}
	if pod.Security["runAsNonRoot"] != true || c.Security["readOnlyRootFilesystem"] != true || c.Security["allowPrivilegeEscalation"] != false {
		t.Errorf("it runs with %v and %v", pod.Security, c.Security)
	}
}

// nodeOf is the configuration of a server in a cluster that a file of deploy starts, from its command line and its environment.
func nodeOf(t *testing.T, where string, args []string, env map[string]string) Config {
	t.Helper()
	var list []string
	for name, value := range env {
		list = append(list, name+"="+value)
	}
	a := &app{in: strings.NewReader(""), out: io.Discard, err: io.Discard, env: func() []string { return list }}
	serve, flags, err := a.newRoot().Find(args)
	if err != nil || serve.Name() != "serve" {
		t.Fatalf("%s runs %v: %v", where, args, err)
	}
	if err := serve.ParseFlags(flags); err != nil {
		t.Fatalf("%s: %v", where, err)
	}
	config, err := a.loadConfig(serve.Flags())
	if err != nil {
		t.Fatalf("%s: the server would not start: %v", where, err)
	}
	if !strings.HasPrefix(config.Cluster.URL, "postgres://") || config.Cluster.Node == "" || !strings.HasPrefix(config.Cluster.Advertise, "http://") || config.Cluster.AcceptAsync {
		t.Errorf("%s: it is the node %+v", where, config.Cluster)
	}
	return config
}

// routesOf are the paths that a server answers GET at.
func routesOf(t *testing.T) map[string]bool {
	t.Helper()
	text, err := os.ReadFile("../../web/testdata/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var document struct{ Paths map[string]map[string]any }
	if err := json.Unmarshal(text, &document); err != nil {
		t.Fatal(err)
	}
	routes := map[string]bool{}
	for path, methods := range document.Paths {
		routes[path] = methods["get"] != nil
	}
	return routes
}

// The Deployment of a cluster has three nodes without volumes that outlive a pod. It takes the database from a Secret, its probes and
// Prometheus ask routes at ports that the server listens on, and at most one node is evicted at a time.
func TestKubernetesClusterFitsTheServer(t *testing.T) {
	t.Parallel()
	objects := readKubernetes(t, "cluster.yaml")
	deployment, budget := objects["Deployment"].Spec, objects["PodDisruptionBudget"].Spec
	c := deployment.Pod.Spec.Containers[0]
	env := map[string]string{}
	for _, e := range c.Env {
		env[e.Name] = strings.ReplaceAll(e.Value, "$(POD_IP)", "10.0.0.1")
		switch {
		case e.From.Secret.Key != "":
			env[e.Name] = "postgres://quern:secret@db:5432/quern"
		case e.From.Field.Path == "metadata.name":
			env[e.Name] = "quern-5d4f-x2x"
		}
	}
	delete(env, "POD_IP")
	config, routes := nodeOf(t, "the Deployment", c.Args, env), routesOf(t)
	for _, p := range c.Ports {
		if address := map[string]string{"http": config.Listen, "metrics": config.MetricsListen}[p.Name]; !strings.HasSuffix(address, ":"+jsonText(p.Container)) {
			t.Errorf("the port %s is %d, and the server listens on %q", p.Name, p.Container, address)
		}
	}
	for _, probe := range []kubernetesProbe{c.Live, c.Ready} {
		if probe.Get.Port != "http" || !routes[probe.Get.Path] || !slices.Contains(config.AllowedHosts, "10.0.0.1") {
			t.Errorf("a probe asks %+v of a server that answers to %v", probe.Get, config.AllowedHosts)
		}
	}
	marks := deployment.Pod.Metadata.Annotations
	if !routes[marks["prometheus.io/path"]] || !strings.HasSuffix(config.MetricsListen, ":"+marks["prometheus.io/port"]) || marks["prometheus.io/scrape"] != "true" {
		t.Errorf("Prometheus asks %v", marks)
	}
	for _, v := range deployment.Pod.Spec.Volumes {
		if v["emptyDir"] == nil {
			t.Errorf("the volume %v outlives a pod", v)
		}
	}
	pod := jsonText(map[string]any{"matchLabels": map[string]any{"app.kubernetes.io/name": "quern"}})
	if deployment.Replicas != 3 || budget.MaxUnavailable != 1 || string(budget.Selector) != pod || string(deployment.Selector) != pod || len(objects) != 3 {
		t.Errorf("%d nodes, of which %d may be away; selected by %s and %s; %d kinds of objects", deployment.Replicas, budget.MaxUnavailable, deployment.Selector,
			budget.Selector, len(objects))
	}
}

// The file for compose has three nodes of one cluster, each under its own name and address, and two databases. Its health checks are
// commands of this binary.
func TestComposeFitsTheServer(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile(filepath.Join(deployDir, "compose", "compose.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	fields, err := yaml.Parser().Unmarshal(text)
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Services map[string]struct {
			Image       string
			Command     []string
			Environment map[string]string
			Health      struct{ Test []string } `json:"healthcheck"`
		}
		Configs, Volumes map[string]any
	}
	if err := json.Unmarshal([]byte(jsonText(fields)), &file); err != nil {
		t.Fatal(err)
	}
	nodes, databases := 0, 0
	for name, s := range file.Services {
		if strings.HasPrefix(s.Image, "postgres:") {
			databases++
			continue
		}
		nodes++
		config := nodeOf(t, name, s.Command, s.Environment)
		if config.Cluster.Node != name || config.Cluster.Advertise != "http://"+name+config.Listen || !slices.Contains(config.AllowedHosts, name) {
			t.Errorf("%s is the node %+v, which answers to %v", name, config.Cluster, config.AllowedHosts)
		}
		if check := s.Health.Test; len(check) < 3 || check[1] != "/quern" || takes(check[2:]) != nil || check[len(check)-1] != "http://127.0.0.1"+config.Listen {
			t.Errorf("%s is checked by %v: %v", name, check, takes(check[2:]))
		}
	}
	if nodes != 3 || databases != 2 || file.Volumes["primary"] == nil || file.Volumes["standby"] == nil || file.Configs["replication"] == nil {
		t.Errorf("%d nodes and %d databases, with the volumes %v", nodes, databases, file.Volumes)
	}
}

func jsonText(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// The configuration file that quern config example prints is taken as it is, and so is each of its options without the comment's mark,
// with the value that counts without a file.
func TestConfigurationExampleIsTaken(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	if err := writeExample(&out); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "quern.yaml")
	load := func(text string) []setting {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		a := &app{in: strings.NewReader(""), out: io.Discard, err: io.Discard, env: func() []string { return []string{"QUERN_CONFIG=" + file} }}
		c, _, err := a.newRoot().Find([]string{"serve"})
		if err != nil {
			t.Fatal(err)
		}
		config, err := a.loadConfig(c.Flags())
		if err != nil {
			t.Fatalf("%v, of\n%s", err, text)
		}
		return config.settings
	}
	load(out.String())
	all := regexp.MustCompile(`(?m)^# ([a-z_]+: )`).ReplaceAllString(out.String(), "$1")
	for _, s := range load(all) {
		if s.text != s.value || !strings.HasPrefix(s.source, "file") {
			t.Errorf("%s is %q from the %s, want %q from the file", s.name, s.text, s.source, s.value)
		}
	}
}

// The Debian package has the right files, is the same bytes when made twice, and has scripts that a shell takes.
func TestDebianPackage(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("dpkg-deb"); err != nil {
		t.Skip("dpkg-deb is not here")
	}
	shell, out := t.TempDir(), t.TempDir()
	program := filepath.Join(shell, "quern") // a stand-in: packing the binary takes long
	a := &app{in: strings.NewReader(""), out: io.Discard, err: io.Discard, env: func() []string { return nil }}
	if code := a.run(t.Context(), []string{"man", filepath.Join(shell, "man1")}); code != exitOK {
		t.Fatalf("man: %d", code)
	}
	for name, text := range map[string]string{
		"quern": "#!/bin/sh\n", "completions/quern.bash": "b", "completions/quern.zsh": "z", "completions/quern.fish": "f",
		"quern.yaml": "# none\n",
	} {
		path := filepath.Join(shell, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	build := func(to string) []byte {
		t.Helper()
		said, err := exec.Command(filepath.Join(deployDir, "debian", "build.sh"), "v1.2.3-4-gabc", "amd64", program, shell, to).CombinedOutput()
		if err != nil {
			t.Fatalf("%v: %s", err, said)
		}
		file := strings.TrimSpace(string(said))
		if filepath.Base(file) != "quern_1.2.3~4~gabc_amd64.deb" {
			t.Errorf("the package is called %s", file)
		}
		data, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		return data
	}
	if first, second := build(out), build(t.TempDir()); string(first) != string(second) {
		t.Error("built twice, the packages differ")
	}
	file, root := filepath.Join(out, "quern_1.2.3~4~gabc_amd64.deb"), filepath.Join(t.TempDir(), "root")
	if said, err := exec.Command("dpkg-deb", "-R", file, root).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, said)
	}
	for name, mode := range map[string]fs.FileMode{
		"usr/bin/quern": 0o755, "lib/systemd/system/quern.service": 0o644, "lib/systemd/system/quern.service.d/configuration.conf": 0o644,
		"etc/quern/quern.yaml": 0o644, "usr/share/man/man1/quern-serve.1.gz": 0o644, "usr/share/bash-completion/completions/quern": 0o644,
		"DEBIAN/postinst": 0o755, "DEBIAN/prerm": 0o755, "DEBIAN/postrm": 0o755, "DEBIAN/conffiles": 0o644,
	} {
		info, err := os.Stat(filepath.Join(root, name))
		if err != nil || info.Mode().Perm() != mode {
			t.Errorf("%s: %v, want mode %o", name, err, mode)
		}
	}
	for _, script := range []string{"postinst", "prerm", "postrm"} {
		if said, err := exec.Command("sh", "-n", filepath.Join(root, "DEBIAN", script)).CombinedOutput(); err != nil {
			t.Errorf("%s: %v: %s", script, err, said)
		}
	}
}

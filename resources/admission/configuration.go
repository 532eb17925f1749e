package admission

import (
	"fmt"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apiserver/pkg/admission"
	"k8s.io/apiserver/pkg/apis/apiserver/install"
	apiserverv1 "k8s.io/apiserver/pkg/apis/apiserver/v1"
	"sigs.k8s.io/yaml"
)

// ReadConfiguration reads the file of kube-apiserver's --admission-control-config-file, an AdmissionConfiguration of
// apiserver.config.k8s.io; empty: no plugin is configured. enable are the plugins that are on besides the defaults: two of them
// have an older form of the file for themselves.
//
// Errors: those of upstream, about the file or one that it names. New reads the sections of the plugins.
func ReadConfiguration(file string, enable []string) (admission.ConfigProvider, error) {
	scheme := runtime.NewScheme()
	install.Install(scheme)
	provider, err := admission.ReadAdmissionConfiguration(enable, file, scheme)
	if err == nil {
		err = readable(file)
	}
	if err != nil {
		return nil, fmt.Errorf("failed to read plugin config: %w", err)
	}
	return provider, nil
}

// readable returns the error of an unreadable file that a configuration names. Upstream ends the process on such a file.
func readable(file string) error {
	if file == "" {
		return nil
	}
	written, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var c apiserverv1.AdmissionConfiguration
	if err := yaml.Unmarshal(written, &c); err != nil {
		return err
	}
	for _, p := range c.Plugins {
		if p.Path == "" || p.Configuration != nil {
			continue
		}
		path := p.Path
		if !filepath.IsAbs(path) {
			path = filepath.Join(filepath.Dir(file), path)
		}
		if _, err := os.ReadFile(path); err != nil {
			return fmt.Errorf("configuration of plugin %s: %w", p.Name, err)
		}
	}
	return nil
}

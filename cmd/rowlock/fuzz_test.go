package main

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"k8s.io/apiserver/pkg/audit/policy"
	"k8s.io/kubernetes/plugin/pkg/admission/imagepolicy"

	"github.com/rowlock/rowlock/resources/admission"
	"github.com/rowlock/rowlock/server/authz"
)

// fuzzed lists the parsers of external input, with the fuzz targets that send them any bytes. Targets that are not listed compare results
// with upstream, or read the server's own data.
var fuzzed = map[string][]string{
	"paths":                                {"server/handlers.FuzzPaths"},
	"query options, resumption of watches": {"server/handlers.FuzzQueries"},
	"continue tokens":                      {"server/handlers.FuzzContinueTokens", "resources/history.FuzzContinue"},
	"queries of rowlock sql":               {"sqlstore.FuzzOneQuery"},
	"JSONPaths of printer columns":         {"sqlstore.FuzzColumnPaths"},
	"label and field selectors":            {"server/handlers.FuzzSelectors"},
	"bodies in JSON, YAML and protobuf":    {"server/handlers.FuzzBodies", "resources/typedjson.FuzzDecode", "resources/untypedjson.FuzzDecode", "resources/jsonscan.FuzzScan"},
	"bodies in CBOR":                       {"server/handlers.FuzzCBOR"},
	"patches":                              {"server/handlers.FuzzPatches", "server/handlers.FuzzPatchVersions", "server/handlers.FuzzMergeJSON", "server/handlers.FuzzMergeStrategic"},
	"apply configurations":                 {"server/handlers.FuzzApplyConfiguration", "resources/fieldmanager.FuzzAgreesWithUpstream", "resources/fieldmanager.FuzzParsePathSet"},
	"Accept, Content-Type":                 {"server/codec.FuzzNegotiate"},
	"Accept-Encoding, If-None-Match":       {"server.FuzzHeaders"},
	"names of servers in TLS":              {"server/pki.FuzzServerNames"},
	"tokens":                               {"server/authn.FuzzTokens", "server/authn.FuzzAuthorization"},
	"headers of impersonation":             {"server.FuzzImpersonation"},
	"files of keys and certificates":       {"server/pki.FuzzKeyFiles"},
	"HTTP/2 frames":                        {"server/h2.FuzzFrames", "server/h2.FuzzRequests"},
	"WebSocket frames":                     {"server/handlers.FuzzWebSockets"},
	"discovery of other servers":           {"server/aggregate.FuzzDiscovery"},
	"OpenAPI documents of other servers":   {"server/openapi.FuzzOtherServers"},
	"answers of webhooks": {"server/handlers.FuzzAdmissionAnswers", "server/handlers.FuzzConversionAnswers", "server/handlers.FuzzImageReviews",
		"server/authn.FuzzTokenReviews", "server/authz.FuzzAccessReviews"},
	"headers of front proxies":             {"server/authn.FuzzFrontProxyHeaders"},
	"certificates and requests in objects": {"server/handlers.FuzzCertificates"},
	"backups":                              {"sqlstore/archive.FuzzRead"},
	"values in etcd and kine":              {"sqlstore/etcd.FuzzKeyValues", "resources/imports.FuzzImport"},
	"files and answers of etcd and kine":   {"sqlstore/etcd.FuzzFiles", "sqlstore/etcd.FuzzAnswers"},
	"configuration files":                  {"cmd/rowlock.FuzzConfigurationFiles", "server/authn.FuzzAuthenticationFile", "server/authn.FuzzTokenFile"},
	"rules and values of custom resources": {"resources/custom/expressions.FuzzAgreesWithUpstream", "resources/custom/plan.FuzzAgreesWithUpstream", "resources/custom.FuzzCoerce"},
}

// corpusBytes bounds the size of all corpora together, which plain tests run.
const corpusBytes = 300 << 10

// Every parser of external bytes has a fuzz target, and every target has seeds and a small corpus: make fuzz runs all targets.
func TestFuzzTargets(t *testing.T) {
	seeded, size := map[string]bool{}, int64(0)
	target := regexp.MustCompile(`(?ms)^func (Fuzz\w+)\(f \*testing\.F\) \{(.*?)^\}`)
	seeds := regexp.MustCompile(`f\.Add\(|\(f[,)]`) // or helper functions add seeds
	err := filepath.WalkDir("../..", func(path string, d fs.DirEntry, err error) error {
		if d != nil && d.IsDir() && (d.Name() == "bin" || d.Name() == ".git") {
			return filepath.SkipDir // files that a build creates and removes
		}
		if err != nil || d.IsDir() || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		dir, err := filepath.Rel("../..", filepath.Dir(path))
		for _, found := range target.FindAllSubmatch(text, -1) {
			name := filepath.ToSlash(dir) + "." + string(found[1])
			corpus, _ := filepath.Glob(filepath.Join(filepath.Dir(path), "testdata/fuzz", string(found[1]), "*"))
			if len(corpus) == 0 || len(corpus) > 10 {
				t.Errorf("%s has a corpus of %d files", name, len(corpus))
			}
			for _, file := range corpus {
				info, err := os.Stat(file)
				if err != nil {
					return err
				}
				size += info.Size()
			}
			seeded[name] = seeds.Match(found[2])
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if size > corpusBytes {
		t.Errorf("the corpora have %d bytes", size)
	}
	for what, targets := range fuzzed {
		for _, name := range targets {
			if has, there := seeded[name]; !there {
				t.Errorf("%s: there is no %s", what, name)
			} else if !has {
				t.Errorf("%s: %s has nothing to begin with", what, name)
			}
		}
	}
}

// FuzzConfigurationFiles reads any content of files that flags name: it is accepted, or refused with an error.
func FuzzConfigurationFiles(f *testing.F) {
	for _, seed := range []string{
		"listen: 0.0.0.0:6443\ntls-san: [a, b]\nfeature-gates: {A: true}\n", "a: &a [*a]", "{", "null", "1: {2: 3}", "a: {}", "a: [[1]]",
		"apiVersion: apiserver.config.k8s.io/v1\nkind: AuthorizationConfiguration\nauthorizers: [{type: RBAC, name: a}, {type: Webhook, name: b, webhook: {matchConditions: [{expression: 'request.user == 1'}]}}]\n",
		"apiVersion: apiserver.config.k8s.io/v1\nkind: AdmissionConfiguration\nplugins: [{name: PodSecurity, configuration: {a: 1}}]\n",
		"apiVersion: audit.k8s.io/v1\nkind: Policy\nrules: [{level: Metadata, omitStages: [RequestReceived]}]\n",
		"apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources: [{resources: [secrets], providers: [{aescbc: {keys: [{name: k, secret: AAAAAAAAAAAAAAAAAAAAAA==}]}}, {identity: {}}]}]\n",
		"apiVersion: apiserver.config.k8s.io/v1\nkind: EncryptionConfiguration\nresources: [{resources: ['*.*', a], providers: [{secretbox: null, aesgcm: {keys: [{name: k, secret: A}]}}]}]\n",
		"imagePolicy: {kubeConfigFile: none, allowTTL: 50, denyTTL: -1, retryBackoff: 500, defaultAllow: true}\n",
	} {
		f.Add([]byte(seed))
	}
	file := filepath.Join(f.TempDir(), "file.yaml")
	f.Fuzz(func(t *testing.T, text []byte) {
		if strings.Contains(string(text), "path") || strings.Contains(string(text), "/dev/") || strings.Contains(string(text), "unix:") {
			return // the content may name other files, and sockets of KMS plugins
		}
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		_, _ = parseConfig(text)
		_, _ = policy.LoadPolicyFromBytes(text)
		_ = authz.CheckFile(file)
		_, _ = admission.ReadConfiguration(file, nil)
		_, _ = imagepolicy.NewImagePolicyWebhook(bytes.NewReader(text))
		if keys, err := (&encryptionOptions{file: file}).open(t.Context()); err == nil {
			if keys.transformers == nil {
				t.Error("nothing is encrypted")
			}
			keys.close()
		}
	})
}

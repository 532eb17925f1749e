package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/spf13/cobra"
	certificatesv1 "k8s.io/api/certificates/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/authentication/user"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	"k8s.io/client-go/util/cert"
	"k8s.io/client-go/util/keyutil"

	"github.com/rowlock/rowlock/server/pki"
)

// kubeconfigOptions are the flags of rowlock kubeconfig.
type kubeconfigOptions struct {
	adminOptions
	subjectOptions
	token     bool
	namespace string
	server    string
}

// certificateTTL is the default lifetime of a certificate, which cannot be revoked.
const certificateTTL = 30 * 24 * time.Hour

func newKubeconfigCommand() *cobra.Command {
	o := &kubeconfigOptions{}
	cmd := &cobra.Command{
		Use:   "kubeconfig",
		Short: "Print the administrator's kubeconfig, or one for a user",
		Long: "Prints the administrator's kubeconfig of a data directory, including its certificates: its owner may do everything. With\n" +
			"--user it prints a kubeconfig for another user, whose rights come from roles and bindings. It contains a client\n" +
			"certificate, which is valid until --ttl is over and cannot be revoked, or with --token a token, which can be revoked\n" +
			"('rowlock token'). For a ServiceAccount (--user system:serviceaccount:<namespace>:<name>) it contains a token of it.\n\n" +
			"The key in the data directory signs the certificate, whether a server runs or not. With --kubeconfig, the command asks\n" +
			"that server for the certificate by a CertificateSigningRequest.",
		Example: "  rowlock kubeconfig > ~/.kube/config\n" +
			"  rowlock kubeconfig --server https://api.example.com:6443 > admin.kubeconfig\n" +
			"  rowlock kubeconfig --user jane --group team --namespace team --server https://api.example.com:6443 > jane.kubeconfig\n" +
			"  rowlock kubeconfig --user system:serviceaccount:team:ci --ttl 8h > ci.kubeconfig",
		Args: noArguments,
		RunE: func(cmd *cobra.Command, _ []string) error { return o.run(cmd) },
	}
	flags := cmd.Flags()
	flags.SortFlags = false
	o.subjectOptions.addFlags(flags, certificateTTL, "`name` of the user, or system:serviceaccount:<namespace>:<name> (default: the administrator)")
	flags.BoolVar(&o.token, "token", false, "use a token, which can be revoked, instead of a client certificate")
	flags.StringVar(&o.namespace, "namespace", "", "default `namespace` of the kubeconfig")
	flags.StringVar(&o.server, "server", "", "`URL` of the server (default: that of the administrator's kubeconfig)")
	o.adminOptions.addFlags(flags)
	o.storage.addDatabaseFlags(flags)
	o.encryption.addFileFlag(flags)
	return cmd
}

func (o *kubeconfigOptions) run(cmd *cobra.Command) error {
	if err := o.adminOptions.complete(); err != nil {
		return err
	}
	if u, err := url.Parse(o.server); err != nil || o.server != "" && (u.Scheme != "https" || u.Host == "") {
		return usagef("--server %q is not a URL that begins with https://", o.server)
	}
	if o.user == "" {
		return o.printAdmin(cmd)
	}
	if err := o.subjectOptions.complete(); err != nil {
		return err
	}
	if o.kubeconfig != "" && !o.token && slices.Contains(o.groups, user.SystemPrivilegedGroup) {
		return usagef("no server signs a CertificateSigningRequest for %s, as --kubeconfig would need: use --token, or --data-dir, whose key signs the certificate",
			user.SystemPrivilegedGroup)
	}
	config, err := o.forUser(cmd)
	if err != nil {
		return err
	}
	data, err := clientcmd.Write(*config)
	if err != nil {
		return err
	}
	_, err = cmd.OutOrStdout().Write(data)
	return err
}

// printAdmin prints the administrator's kubeconfig, with the given server and namespace.
func (o *kubeconfigOptions) printAdmin(cmd *cobra.Command) error {
	for _, name := range []string{"group", "token", "ttl", "allow-system-masters", "kubeconfig"} {
		if cmd.Flags().Changed(name) {
			return usagef("--%s needs --user: without it the administrator's kubeconfig is printed, with the credentials that it has", name)
		}
	}
	data, err := os.ReadFile(filepath.Join(o.dataDir, pki.KubeconfigName))
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("no %s in %s: 'rowlock serve' writes it when it starts", pki.KubeconfigName, o.dataDir)
	}
	if err == nil && (o.server != "" || o.namespace != "") {
		data, err = o.elsewhere(data)
	}
	if err != nil {
		return err
	}
	_, err = cmd.OutOrStdout().Write(data)
	return err
}

// elsewhere returns the administrator's kubeconfig with the given server and namespace.
func (o *kubeconfigOptions) elsewhere(data []byte) ([]byte, error) {
	admin, err := clientcmd.Load(data)
	if err != nil {
		return nil, err
	}
	current, cluster, err := currentCluster(admin)
	if err != nil {
		return nil, err
	}
	if o.server != "" {
		cluster.Server = o.server
	}
	if o.namespace != "" {
		current.Namespace = o.namespace
	}
	return clientcmd.Write(*admin)
}

// currentCluster returns the current context of a kubeconfig, and its cluster.
func currentCluster(config *clientcmdapi.Config) (*clientcmdapi.Context, *clientcmdapi.Cluster, error) {
	current := config.Contexts[config.CurrentContext]
	if current == nil || config.Clusters[current.Cluster] == nil {
		return nil, nil, errors.New("the administrator's kubeconfig has no current context")
	}
	return current, config.Clusters[current.Cluster], nil
}

// forUser returns a kubeconfig with the cluster of the administrator's kubeconfig and credentials of the user.
func (o *kubeconfigOptions) forUser(cmd *cobra.Command) (*clientcmdapi.Config, error) {
	admin, err := o.config()
	if err != nil {
		return nil, err
	}
	current, cluster, err := currentCluster(admin)
	if err != nil {
		return nil, err
	}
	cluster.LocationOfOrigin, cluster.Extensions = "", nil
	if o.server != "" {
		cluster.Server = o.server
	}
	who := clientcmdapi.NewAuthInfo()
	if err := o.credentials(cmd, who); err != nil {
		return nil, err
	}
	config := clientcmdapi.NewConfig()
	config.Clusters[current.Cluster] = cluster
	config.AuthInfos[o.user] = who
	config.CurrentContext = o.user + "@" + current.Cluster
	config.Contexts[config.CurrentContext] = &clientcmdapi.Context{Cluster: current.Cluster, AuthInfo: o.user, Namespace: o.namespace}
	return config, clientcmdapi.FlattenConfig(config)
}

func (o *kubeconfigOptions) credentials(cmd *cobra.Command, who *clientcmdapi.AuthInfo) (err error) {
	_, _, isAccount := o.account()
	switch {
	case isAccount || o.token:
		t, err := issuer{&o.adminOptions, cmd}.create(cmd.Context(), &o.subjectOptions)
		who.Token = t.Token
		return err
	case o.kubeconfig != "":
		who.ClientCertificateData, who.ClientKeyData, err = o.requestCertificate(cmd)
		if err == nil {
			o.tellEarlyEnd(cmd, who.ClientCertificateData)
		}
		return err
	}
	who.ClientCertificateData, who.ClientKeyData, err = pki.IssueClient(o.dataDir, o.user, o.groups, time.Now(), o.ttl)
	if errors.Is(err, pki.ErrNoAuthority) {
		return fmt.Errorf("%w: 'rowlock serve' makes one when it starts", err)
	}
	return err
}

// tellEarlyEnd reports a certificate with a shorter lifetime than was asked for: the signer limits it (--cluster-signing-duration). One of eight hours
// or more always ends five minutes early, because it begins five minutes before it is signed.
func (o *kubeconfigOptions) tellEarlyEnd(cmd *cobra.Command, certificate []byte) {
	early := time.Minute // the time since it was signed
	if o.ttl >= 8*time.Hour {
		early += 5 * time.Minute
	}
	all, err := cert.ParseCertsPEM(certificate)
	if err == nil && all[0].NotAfter.Before(time.Now().Add(o.ttl-early)) {
		cmd.PrintErrf("the server made a certificate that is good until %s, which is less than --ttl\n", all[0].NotAfter.UTC().Format(time.RFC3339))
	}
}

// requestCertificate creates a CertificateSigningRequest, approves it, and waits for the certificate. The key is not sent.
func (o *kubeconfigOptions) requestCertificate(cmd *cobra.Command) (certificate, key []byte, err error) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, nil, err
	}
	if key, err = keyutil.MarshalPrivateKeyToPEM(private); err != nil {
		return nil, nil, err
	}
	der, err := x509.CreateCertificateRequest(rand.Reader, &x509.CertificateRequest{Subject: pkix.Name{CommonName: o.user, Organization: o.groups}}, private)
	if err != nil {
		return nil, nil, err
	}
	client, err := issuer{&o.adminOptions, cmd}.client()
	if err != nil {
		return nil, nil, err
	}
	ctx := cmd.Context()
	const path = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
	seconds := int32(min(o.ttl/time.Second, 1<<31-1))
	csr := certificatesv1.CertificateSigningRequest{ObjectMeta: metav1.ObjectMeta{GenerateName: "rowlock-kubeconfig-"}, Spec: certificatesv1.CertificateSigningRequestSpec{
		Request: pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE REQUEST", Bytes: der}), SignerName: certificatesv1.KubeAPIServerClientSignerName,
		ExpirationSeconds: &seconds, Usages: []certificatesv1.KeyUsage{certificatesv1.UsageClientAuth}}}
	if err := client.do(ctx, "POST", path, &csr, &csr); err != nil {
		return nil, nil, err
	}
	csr.Status.Conditions = append(csr.Status.Conditions, certificatesv1.CertificateSigningRequestCondition{Type: certificatesv1.CertificateApproved,
		Status: corev1.ConditionTrue, Reason: "RowlockKubeconfig", Message: "asked for by rowlock kubeconfig"})
	if err := client.do(ctx, "PUT", path+"/"+csr.Name+"/approval", &csr, &csr); err != nil {
		return nil, nil, err
	}
	certificate, err = client.awaitCertificate(ctx, path, csr.Name)
	return certificate, key, err
}

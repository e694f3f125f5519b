package logins;

import java.io.ByteArrayInputStream;
import java.net.Socket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.security.KeyFactory;
import java.security.KeyStore;
import java.security.Principal;
import java.security.PrivateKey;
import java.security.cert.Certificate;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;
import java.security.spec.PKCS8EncodedKeySpec;
import java.util.Base64;
import javax.net.ssl.KeyManager;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509ExtendedKeyManager;

/** TLS by files in PEM, for which the Java driver has no options of its own. Keys are of elliptic curves, as certificates.sh makes them. */
final class Certificates {
    private static final char[] NO_PASSWORD = new char[0];
    private static final String OWN = "own";

    private Certificates() {}

    /** Trusts the authorities of one file, and shows the certificate of another, if there is one. */
    static SSLContext context(Path authorities, Path own, boolean insists) throws Exception {
        KeyStore trusted = empty();
        CertificateFactory factory = CertificateFactory.getInstance("X.509");
        int number = 0;
        for (Certificate authority : factory.generateCertificates(Files.newInputStream(authorities))) {
            trusted.setCertificateEntry("authority" + number++, authority);
        }
        TrustManagerFactory trust = TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
        trust.init(trusted);
        SSLContext context = SSLContext.getInstance("TLS");
        context.init(own == null ? null : managers(own, insists), trust.getTrustManagers(), null);
        return context;
    }

    private static KeyStore empty() throws Exception {
        KeyStore store = KeyStore.getInstance(KeyStore.getDefaultType());
        store.load(null, NO_PASSWORD);
        return store;
    }

    private static byte[] section(String pem, String name) {
        String begin = "-----BEGIN " + name + "-----";
        String end = "-----END " + name + "-----";
        return Base64.getMimeDecoder().decode(pem.substring(pem.indexOf(begin) + begin.length(), pem.indexOf(end)));
    }

    private static KeyManager[] managers(Path file, boolean insists) throws Exception {
        String pem = Files.readString(file);
        PrivateKey key = KeyFactory.getInstance("EC").generatePrivate(new PKCS8EncodedKeySpec(section(pem, "PRIVATE KEY")));
        var der = new ByteArrayInputStream(section(pem, "CERTIFICATE"));
        X509Certificate certificate = (X509Certificate) CertificateFactory.getInstance("X.509").generateCertificate(der);
        X509Certificate[] chain = {certificate};
        if (insists) {
            return new KeyManager[] {new Insisting(key, chain)};
        }
        KeyStore store = empty();
        store.setKeyEntry(OWN, key, NO_PASSWORD, chain);
        KeyManagerFactory keys = KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
        keys.init(store, NO_PASSWORD);
        return keys.getKeyManagers();
    }

    /**
     * Shows its certificate even to a server that has not asked for one by this authority; of itself Java leaves it out then, and the
     * connection goes on without one.
     */
    private static final class Insisting extends X509ExtendedKeyManager {
        private final PrivateKey key;
        private final X509Certificate[] chain;

        Insisting(PrivateKey key, X509Certificate[] chain) {
            this.key = key;
            this.chain = chain;
        }

        @Override
        public String[] getClientAliases(String type, Principal[] issuers) {
            return new String[] {OWN};
        }

        @Override
        public String chooseClientAlias(String[] types, Principal[] issuers, Socket socket) {
            return OWN;
        }

        @Override
        public String[] getServerAliases(String type, Principal[] issuers) {
            return null;
        }

        @Override
        public String chooseServerAlias(String type, Principal[] issuers, Socket socket) {
            return null;
        }

        @Override
        public X509Certificate[] getCertificateChain(String alias) {
            return chain;
        }

        @Override
        public PrivateKey getPrivateKey(String alias) {
            return key;
        }
    }
}

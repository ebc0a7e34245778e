import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import org.opensearch.common.settings.Settings;
import org.opensearch.env.Environment;
import org.opensearch.http.HttpServerTransport;
import org.opensearch.node.InternalSettingsPreparer;
import org.opensearch.node.Node;
import org.opensearch.transport.Netty4Plugin;

/**
 * Runs one OpenSearch node on free loopback ports, in the directory that its
 * argument names, and says where. It ends with its standard input.
 */
public class OpenSearch {
  static class Embedded extends Node {
    Embedded(Environment environment) {
      super(environment, List.of(Netty4Plugin.class), false);
    }
  }

  public static void main(String[] args) throws Exception {
    Path home = Path.of(args[0]);
    Files.createDirectories(home.resolve("config"));
    Settings settings = Settings.builder()
        .put("path.home", home)
        .put("cluster.name", "peer")
        .put("discovery.type", "single-node")
        .put("cluster.routing.allocation.disk.threshold_enabled", false)
        .put("http.type", "netty4").put("http.host", "127.0.0.1").put("http.port", 0)
        .put("transport.type", "netty4").put("transport.host", "127.0.0.1").put("transport.port", 0)
        .build();
    Node node = new Embedded(InternalSettingsPreparer.prepareEnvironment(settings, Map.of(), home.resolve("config"), () -> "peer"));
    node.start();
    System.out.println("listening " + node.injector().getInstance(HttpServerTransport.class).boundAddress().publishAddress());
    while (System.in.read() >= 0) {
    }
    node.close();
  }
}

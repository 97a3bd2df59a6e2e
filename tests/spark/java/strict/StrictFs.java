package strict;

import java.io.IOException;
import java.net.URI;
import java.net.URISyntaxException;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.DelegateToFileSystem;

/** {@link StrictFileSystem} for Hadoop's FileContext. */
public class StrictFs extends DelegateToFileSystem {
  public StrictFs(URI uri, Configuration hadoop) throws IOException, URISyntaxException {
    super(uri, new StrictFileSystem(), hadoop, "strict", false);
  }
}

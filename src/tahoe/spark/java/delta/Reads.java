package delta;

import java.io.IOException;
import java.util.HashSet;
import java.util.Set;
import org.apache.hadoop.conf.Configuration;
import org.apache.hadoop.fs.FileStatus;
import org.apache.hadoop.fs.FileSystem;
import org.apache.hadoop.fs.Path;
import org.apache.spark.sql.catalyst.TableIdentifier;
import org.apache.spark.sql.catalyst.analysis.UnresolvedRelation;
import org.apache.spark.sql.catalyst.plans.logical.LogicalPlan;
import org.apache.spark.sql.catalyst.plans.logical.UnresolvedDataSource;
import org.apache.spark.sql.classic.SparkSession;
import scala.Option;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;

/**
 * Finds reads of folders as Parquet that are folders of Delta tables, before Spark lists their files, and passes them to Python, which may
 * refuse them. A file that is named is left alone, so that the files of a table, and its checkpoints, can be looked at one by one. Python:
 * {@code guard.check_read}.
 */
class Reads {
  private static final String PARQUET = "parquet";
  private static final String LOG = "_delta_log";

  /** Paths in one read, and folders, that are looked at: each costs requests, and a program that names more of them names files. */
  private static final int LOOKS_MAX = 20;

  private final SparkSession session;

  /** Folders without a log of their own. */
  private final Set seen = new HashSet();

  Reads(SparkSession session) { this.session = session; }

  /** Looks at the reads in a plan whose names are not resolved yet. */
  static void check(SparkSession session, LogicalPlan plan) {
    Reads reads = null;
    for (Iterator leaves = plan.collectLeaves().iterator(); leaves.hasNext(); ) {
      Object leaf = leaves.next();
      if (!(leaf instanceof UnresolvedDataSource) && !(leaf instanceof UnresolvedRelation)) continue;
      if (reads == null) reads = new Reads(session);
      if (leaf instanceof UnresolvedDataSource) reads.look((UnresolvedDataSource) leaf);
      else reads.look((UnresolvedRelation) leaf);
    }
  }

  private void look(UnresolvedDataSource read) {
    if (!PARQUET.equalsIgnoreCase(read.format())) return;
    Configuration configuration = session.sessionState().newHadoopConfWithOptions(read.options());
    Option alone = read.options().get("path");
    if (alone.isDefined()) look((String) alone.get(), configuration);
    int looked = 0;
    for (Iterator paths = read.paths().iterator(); paths.hasNext() && looked < LOOKS_MAX; looked++) look((String) paths.next(), configuration);
  }

  /** A name such as parquet.`/data/t`, if the catalog has no such table in a schema named parquet. */
  private void look(UnresolvedRelation read) {
    Seq name = read.multipartIdentifier();
    if (name.size() != 2 || !PARQUET.equalsIgnoreCase((String) name.head())) return;
    TableIdentifier entry = new TableIdentifier((String) name.last(), (Option) Option.apply(name.head()));
    if (session.sessionState().catalog().tableExists(entry)) return;
    look((String) name.last(), session.sessionState().newHadoopConf());
  }

  private void look(String text, Configuration configuration) {
    try {
      Path path = new Path(text);
      FileSystem files = path.getFileSystem(configuration);
      FileStatus[] found = files.globStatus(path);
      if (found == null) return;
      for (int i = 0; i < found.length; i++) {
        boolean isNamed = found.length == 1 && found[i].isFile();
        Path folder = found[i].isFile() ? found[i].getPath().getParent() : found[i].getPath();
        if (!isNamed) look(text, files, folder);
      }
    } catch (IOException error) {  // Spark will say it
      return;
    } catch (IllegalArgumentException error) {  // not a path
      return;
    }
  }

  /** A folder that is a table's, or a partition of one. */
  private void look(String text, FileSystem files, Path folder) throws IOException {
    for (Path at = folder; at != null && seen.size() < LOOKS_MAX && seen.add(at); at = at.getParent()) {
      if (files.exists(new Path(at, LOG))) {
        Ask.answer(Ask.python.readsFiles(session, text, at.toString()));
        return;
      }
      if (at.getName().indexOf('=') < 0) return;
    }
  }
}

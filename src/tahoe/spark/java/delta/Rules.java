package delta;

import java.util.ArrayList;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import scala.collection.Iterator;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/** Gives a session our rule, after any of the user's own. Spark calls it for each session that is made from an enabled one. */
public class Rules extends AbstractFunction1 {
  public Object apply(Object session) {
    install((SparkSession) session);
    return new Nothing();
  }

  public static boolean installed(SparkSession session) {
    for (Iterator it = session.experimental().extraOptimizations().iterator(); it.hasNext(); ) {
      if (it.next() instanceof Rewrite) return true;
    }
    return false;
  }

  public static void install(SparkSession session) {
    ArrayList rules = new ArrayList();
    for (Iterator it = session.experimental().extraOptimizations().iterator(); it.hasNext(); ) {
      Object rule = it.next();
      if (!(rule instanceof Rewrite)) rules.add(rule);
    }
    rules.add(new Rewrite(session));
    session.experimental().extraOptimizations_$eq(CollectionConverters.asScala(rules).toSeq());
  }

  /** A rule that is injected runs before dynamic partition pruning, which is too early for ours. */
  public static class Nothing extends Rule {
    public TreeNode apply(TreeNode plan) { return plan; }
  }
}

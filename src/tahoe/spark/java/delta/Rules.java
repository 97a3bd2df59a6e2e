package delta;

import java.lang.reflect.Field;
import java.util.ArrayList;
import org.apache.spark.sql.SparkSessionExtensions;
import org.apache.spark.sql.catalyst.rules.Rule;
import org.apache.spark.sql.catalyst.trees.TreeNode;
import org.apache.spark.sql.classic.SparkSession;
import scala.collection.Iterator;
import scala.collection.immutable.Seq;
import scala.jdk.javaapi.CollectionConverters;
import scala.runtime.AbstractFunction1;

/** Gives sessions our rules: one to the optimiser, after any of the user's own, and others to the analysis of statements. */
public class Rules {
  private Rules() { }

  /**
   * The session, and through the extensions that they share, each that is made from it. To do it again changes nothing.
   *
   * @return the lists of rules that the session's analyser does not let us add to
   */
  public static ArrayList install(SparkSession session) {
    if (!has(session.experimental().extraOptimizations(), Rewrite.class)) inject(session.extensions());
    optimise(session);
    return analyse(session);
  }

  /** Adds the rules of the analysis that are not there. Spark's builders leave some of the extensions' out, which depends on the version. */
  static synchronized ArrayList analyse(SparkSession session) {
    Object analyzer = session.sessionState().analyzer();
    ArrayList closed = new ArrayList();
    add(analyzer, "hintResolutionRules", new Rule[] {new Definitions.Early(session)}, closed);
    add(analyzer, "extendedResolutionRules", new Rule[] {new Merges(session), new Inserts(), new Variables(session)}, closed);
    add(analyzer, "postHocResolutionRules", new Rule[] {new Statements(session), new Definitions.Late()}, closed);
    return closed;
  }

  private static void inject(SparkSessionExtensions extensions) {
    extensions.injectOptimizerRule(new Builder());
    extensions.injectHintResolutionRule(new Definitions.EarlyBuilder());
    extensions.injectResolutionRule(new Merges.Builder());
    extensions.injectResolutionRule(new Inserts.Builder());
    extensions.injectResolutionRule(new Variables.Builder());
    extensions.injectPostHocResolutionRule(new Statements.Builder());
    extensions.injectPostHocResolutionRule(new Definitions.LateBuilder());
  }

  private static boolean has(Seq rules, Class kind) {
    for (Iterator it = rules.iterator(); it.hasNext(); ) {
      if (it.next().getClass() == kind) return true;
    }
    return false;
  }

  private static void optimise(SparkSession session) {
    ArrayList rules = new ArrayList();
    for (Iterator it = session.experimental().extraOptimizations().iterator(); it.hasNext(); ) {
      Object rule = it.next();
      if (!(rule instanceof Rewrite)) rules.add(rule);
    }
    rules.add(new Rewrite(session));
    session.experimental().extraOptimizations_$eq(CollectionConverters.asScala(rules).toSeq());
  }

  /** A session makes its analyser when it is first used, and never again; its rules are where only reflection comes. */
  private static void add(Object analyzer, String name, Rule[] rules, ArrayList closed) {
    try {
      Field field = Fields.of(analyzer, name);
      for (int i = 0; i < rules.length; i++) {
        Seq found = (Seq) field.get(analyzer);
        if (!has(found, rules[i].getClass())) field.set(analyzer, found.appended(rules[i]));
      }
    } catch (Exception error) {  // the field is elsewhere, or is something else
      closed.add(name);
    }
  }

  /** Spark calls it for each session that is made from an enabled one. */
  private static class Builder extends AbstractFunction1 {
    public Object apply(Object session) {
      optimise((SparkSession) session);
      return new Nothing();
    }
  }

  /** A rule that is injected runs before dynamic partition pruning, which is too early for ours. */
  public static class Nothing extends Rule {
    public TreeNode apply(TreeNode plan) { return plan; }
  }
}
